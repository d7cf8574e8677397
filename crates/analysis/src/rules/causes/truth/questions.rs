//! Scenes made from a row, each with the answer that is true, and what a rule answers.

use pagelab_vocab::causes::CauseDef;
use pagelab_vocab::metrics::declared;

use super::super::scenes::{Side, evidence_of, key};
use super::{Claims, Counts, Edge, Moves, Setting, Truth, WORK, Without};
use crate::rules::Verdict;
use crate::rules::component_rule::ComponentRule;
use crate::rules::evidence::{Evidence, is_of};
use crate::rules::finding::SideName;
use crate::rules::scene::Scene;

/// Time of the components of a cause on the fast side, and by how much it rises, ns.
const OWN_NS: f64 = 1e8;
const RISE_NS: f64 = 4.5e8;
/// What is lost beside it, and what the program does in its own code anyway.
const BESIDE_NS: f64 = 5e7;
const PROGRAM_NS: f64 = 6e8;
/// Of a component at an edge, where nothing else is lost.
const EDGE_NS: f64 = 1e9;
/// What everything is that nothing moves.
const STEADY: f64 = 100.0;
/// What many programs do more of beside what is asked about.
const OTHER_EVENT: &str = "target.io.syscr";
/// Causes that counters show, too: stacks only tell for whom was waited. Without them the chain has a hole.
const TOLD_WITHOUT_STACKS: &[&str] = &["cache.cold", "sync.more", "sync.dearer"];
/// So far from an edge the noise of the runs leaves no doubt.
const NEAR: f64 = 0.03;

/// What is true, or what a rule says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// It is not the cause.
    No,
    /// It is.
    Cause {
        /// The setting to blame.
        setting: Option<String>,
        /// Nothing is left open.
        is_whole: bool,
        /// Its share of the loss, where the row tells it.
        share: Option<f64>,
    },
}

/// A scene, and what is true in it.
#[derive(Debug)]
pub(super) struct Question {
    what: String,
    evidence: Evidence,
    slower: SideName,
    truth: Answer,
}

/// What a scene is made of.
#[derive(Clone)]
struct Scenery<'a> {
    truth: &'a Truth,
    /// The component that takes the loss.
    own: &'a str,
    /// Time of that on the fast and the slow side.
    own_ns: [f64; 2],
    beside_ns: f64,
    moves: Vec<(&'a str, f64, f64)>,
    lever: Option<Setting>,
}

impl<'a> Scenery<'a> {
    /// What the cause does, in the first of its components, with the first of its settings where it needs one.
    fn of(truth: &'a Truth) -> Self {
        let needs_lever = matches!(truth.without_lever, Without::Nothing | Without::NothingUnless(_) | Without::Hole);
        let lever = truth.levers.first().filter(|_| needs_lever).copied();
        let scenery = Self {
            truth,
            own: truth.time.first().copied().expect("a component"),
            own_ns: [OWN_NS, OWN_NS + RISE_NS],
            beside_ns: BESIDE_NS,
            moves: truth.moves.to_vec(),
            lever: None,
        };
        match lever {
            Some(lever) => scenery.set(lever),
            None => scenery,
        }
    }

    fn in_component(self, own: &'a str) -> Self {
        Self { own, ..self }
    }

    fn over(mut self, moves: Moves) -> Self {
        for entry in moves {
            match entry.0.strip_prefix("own:") {
                Some(component) => self.own = component,
                None => self.moves.push(*entry),
            }
        }
        self
    }

    fn set(mut self, lever: Setting) -> Self {
        self.moves.extend(lever.with);
        Self { lever: Some(lever), ..self }
    }

    fn unset(self) -> Self {
        Self { lever: None, ..self }
    }

    /// Another component for what is lost beside it.
    fn other(&self) -> &'static str {
        if is_of("run.user", self.truth.time) || self.truth.elsewhere.contains(&"run.user") {
            "off.timer"
        } else {
            "run.user"
        }
    }

    /// What a figure is moved from and to.
    fn moved(&self, figure: &str) -> Option<[f64; 2]> {
        let entry = self.moves.iter().rfind(|(moved, ..)| *moved == figure);
        entry.map(|(_, fast, slow)| [*fast, *slow])
    }

    /// A figure on the fast and on the slow side: the sum of several, with `+` between them; of a component, or of all below a name
    /// that ends in a dot.
    fn figure(&self, figure: &str) -> [f64; 2] {
        if let Some(component) = figure.strip_prefix("time:") {
            let (fast, slow) = self.sides();
            let sum = |side: &Side| {
                side.components.iter().filter(|(name, _)| is_of(name, &[component])).map(|(_, ns)| ns).sum()
            };
            return [sum(&fast), sum(&slow)];
        }
        let values = figure.split('+').map(|name| self.moved(name).unwrap_or([STEADY; 2]));
        values.fold([0.0; 2], |[fast, slow], [more_fast, more_slow]| [fast + more_fast, slow + more_slow])
    }

    fn rise_ns(&self) -> f64 {
        self.own_ns[1] - self.own_ns[0]
    }

    fn sides(&self) -> (Side, Side) {
        let (mut fast, mut slow) = (Side::default(), Side::default());
        let [own_on_fast, own_on_slow] = self.own_ns;
        for (side, own_ns, beside_ns) in [(&mut fast, own_on_fast, 0.0), (&mut slow, own_on_slow, self.beside_ns)] {
            steady(side);
            side.components.insert("run.user".to_owned(), PROGRAM_NS);
            *side.components.entry(self.other().to_owned()).or_default() += beside_ns;
            *side.components.entry(self.own.to_owned()).or_default() += own_ns;
            if !is_of(self.own, self.truth.time) {
                *side.components.entry(self.truth.time[0].to_owned()).or_default() += OWN_NS;
            }
        }
        // What the component moves beside another one, it does not where the loss is in itself.
        let is_own = |name: &str| name.strip_prefix("time:") == Some(self.own);
        for (name, on_fast, on_slow) in self.moves.iter().filter(|(name, ..)| !is_own(name)) {
            put(&mut fast, name, *on_fast);
            put(&mut slow, name, *on_slow);
        }
        slow.move_to_own_device();
        if let Some(lever) = self.lever {
            fast.settings.insert(lever.key.to_owned(), lever.good.to_owned());
            slow.settings.insert(lever.key.to_owned(), lever.bad.to_owned());
        }
        (fast, slow)
    }

    fn ask(&self, what: impl Into<String>, truth: Answer) -> Question {
        self.ask_of(SideName::Test, what, truth)
    }

    fn ask_of(&self, slower: SideName, what: impl Into<String>, truth: Answer) -> Question {
        let (fast, slow) = self.sides();
        Question { what: what.into(), evidence: evidence_of(&fast, &slow, slower), slower, truth }
    }

    /// The answer where the cause holds.
    fn cause(&self) -> Answer {
        self.held(true, None)
    }

    fn with_hole(&self) -> Answer {
        self.held(false, None)
    }

    fn held(&self, is_whole: bool, share: Option<f64>) -> Answer {
        Answer::Cause { setting: self.lever.map(|lever| lever.key.to_owned()), is_whole, share }
    }
}

/// Everything that is recorded is the same on both sides, as long as nothing moves it.
fn steady(side: &mut Side) {
    const NAMES: [&str; 6] = ["vmstat.", "disk.", "target.io.", "cgroup.memory.", "faults.", "interrupts"];
    for info in declared().filter(|info| NAMES.iter().any(|start| info.name.starts_with(start))) {
        side.metrics.insert(key(&info.name), STEADY);
    }
    for vector in ["TLB", "LOC", "RES", "CAL"] {
        side.metrics.insert(key(&format!("interrupts[{vector}]")), STEADY);
    }
    for call in ["mmap", "munmap", "brk", "mremap", "madvise", "mprotect", "mlock"] {
        side.calls.insert(call.to_owned(), STEADY);
    }
    for kind in ["on_present_page", "of_file", "dax_page"] {
        side.faults.insert(kind.to_owned(), STEADY);
    }
    (side.forks, side.threads, side.execs, side.cpu_speed) = (STEADY, STEADY, STEADY, STEADY);
    side.given_back_bytes = STEADY;
    side.metrics.insert(key("disk.busy_ns"), 1e8);
    // Another disk of the host, with which the target has nothing to do.
    side.metrics.insert(key("disk.busy_ns[vdb]"), 1e6);
    side.settings.insert("kernel.release".to_owned(), "6.18.0".to_owned());
}

fn put(side: &mut Side, name: &str, value: f64) {
    match name.split_once(':') {
        Some(("time", component)) => drop(side.components.insert(component.to_owned(), value)),
        Some(("calls", kind)) => drop(side.calls.insert(kind.to_owned(), value)),
        Some(("stacks", "none")) => side.has_no_stacks = true,
        Some(("in", entry)) => side.entry = Some(entry.to_owned()),
        Some(("at", place)) => {
            let (component, function) = place.split_once(':').expect("COMPONENT:FUNCTION");
            side.functions.insert(component.to_owned(), function.to_owned());
        }
        Some(("through", function)) => side.function = Some(function.to_owned()),
        Some(("faults", kind)) => drop(side.faults.insert(kind.to_owned(), value)),
        Some(_) => panic!("{name}: no such figure"),
        None => match name {
            "forks" => side.forks = value,
            "given_back" => side.given_back_bytes = value,
            "threads" => side.threads = value,
            "execs" => side.execs = value,
            "cpu.speed" => side.cpu_speed = value,
            "device" => side.device = Some(if value < 2.0 { "vda" } else { "vdb" }.to_owned()),
            metric => drop(side.metrics.insert(key(metric), value)),
        },
    }
}

/// Everything that is asked about a row.
pub(super) fn questions(truth: &Truth) -> Vec<Question> {
    let scenery = Scenery::of(truth);
    let mut all = vec![
        scenery.ask("its scene", scenery.cause()),
        scenery.ask_of(SideName::Base, "its scene, base being the slow side", scenery.cause()),
    ];
    for component in truth.time {
        let there = scenery.clone().in_component(component);
        all.push(there.ask(format!("all of it in {component}"), there.cause()));
    }
    for component in truth.elsewhere {
        let there = scenery.clone().in_component(component);
        all.push(there.ask(format!("the loss is in {component}"), Answer::No));
    }
    for (why, moves) in truth.also {
        let also = scenery.clone().over(moves);
        all.push(also.ask(*why, also.cause()));
    }
    all.extend(truth.not.iter().map(|(why, moves)| scenery.clone().over(moves).ask(*why, Answer::No)));
    if TOLD_WITHOUT_STACKS.contains(&truth.cause) {
        let there = scenery.clone().over(&[("stacks:none", 1.0, 1.0)]);
        all.push(there.ask("no stacks were recorded", there.with_hole()));
    }
    all.extend(truth.edges.iter().flat_map(|edge| of_edge(&scenery, edge)));
    all.extend(truth.levers.iter().flat_map(|lever| of_lever(&scenery, *lever)));
    all.extend(without_lever(&scenery));
    all.extend(of_share(&scenery));
    all.extend(of_claim(&scenery));
    all.extend(of_price(&scenery));
    // What is answered soonest first: a cause that is not there is not weighed.
    all.sort_by_key(|question| question.truth != Answer::No);
    all
}

/// A little above the edge, and a little below.
fn of_edge(scenery: &Scenery<'_>, edge: &Edge) -> Vec<Question> {
    let sides = [(1.0 + NEAR, edge.counts == Counts::Above), (1.0 - NEAR, edge.counts == Counts::Below)];
    let question = |(factor, counts): (f64, bool)| {
        let mut scenery = scenery.clone().over(edge.with);
        let ratio = edge.ratio * factor;
        scenery.own = edge.own.unwrap_or(scenery.own);
        if edge.is_all {
            scenery.own = edge.figure.strip_prefix("time:").expect("a component");
            scenery.own_ns = [EDGE_NS, EDGE_NS * ratio];
            scenery.beside_ns = 0.0;
        } else {
            let fast = scenery.moved(edge.figure).map_or(STEADY, |[fast, _]| fast);
            scenery.moves.push((edge.figure, fast, fast * ratio));
            if matches!(scenery.truth.claims, Claims::More(_)) {
                // A few events more cost little: nothing else may be lost beside it.
                scenery.own_ns = [OWN_NS, OWN_NS * (1.0 + (ratio - 1.0).max(0.05))];
                scenery.beside_ns = 0.0;
            }
        }
        let truth = if counts { scenery.cause() } else { Answer::No };
        scenery.ask(format!("{} times {ratio:.3}", edge.figure), truth)
    };
    sides.into_iter().map(question).collect()
}

/// The setting, the same the other way round, and without what must be seen beside it.
fn of_lever(scenery: &Scenery<'_>, lever: Setting) -> Vec<Question> {
    let there = scenery.clone().set(lever);
    let turned = Setting { good: lever.bad, bad: lever.good, ..lever };
    let blamed = if lever.is_harmless { unblamed(scenery) } else { there.cause() };
    let mut all = vec![there.ask(format!("{} {} to {}", lever.key, lever.good, lever.bad), blamed)];
    let what = format!("{} {} to {}", lever.key, lever.bad, lever.good);
    let there = scenery.clone().set(turned);
    all.push(there.ask(what, if lever.either_way { there.cause() } else { unblamed(scenery) }));
    if lever.key.contains(".vda.") {
        let others: &str = lever.key.replace(".vda.", ".vdb.").leak();
        let there = scenery.clone().set(Setting { key: others, ..lever });
        all.push(there.ask(format!("{others}, of a disk that nobody uses"), unblamed(scenery)));
    }
    if !lever.with.is_empty() {
        // A component in which nothing of that is.
        let is_beside = |name: &str| {
            let all = scenery.truth.levers.iter().flat_map(|lever| lever.with);
            all.into_iter().any(|(figure, ..)| figure.strip_prefix("time:") == Some(name))
        };
        let own = scenery.truth.time.iter().find(|name| !is_beside(name)).expect("another component");
        let there = Scenery { lever: Some(lever), own, moves: scenery.truth.moves.to_vec(), ..scenery.clone() };
        all.push(there.ask(format!("{} without what must be seen beside it", lever.key), unblamed(scenery)));
    }
    all
}

/// The answer where no setting is to blame.
fn unblamed(scenery: &Scenery<'_>) -> Answer {
    let whole = |is_whole| Answer::Cause { setting: None, is_whole, share: None };
    match scenery.truth.without_lever {
        Without::Nothing | Without::NothingUnless(_) => Answer::No,
        Without::Hole => whole(false),
        Without::MoreWork(_) | Without::Cause => whole(true),
    }
}

fn without_lever(scenery: &Scenery<'_>) -> Vec<Question> {
    let unset = scenery.clone().unset();
    let mut all = vec![unset.ask("no setting differs", unblamed(&unset))];
    match unset.truth.without_lever {
        Without::NothingUnless(cases) => all.extend(cases.iter().map(|(why, moves, holds)| {
            let there = unset.clone().over(moves);
            there.ask(format!("no setting differs: {why}"), if *holds { there.cause() } else { Answer::No })
        })),
        Without::MoreWork(figures) => all.extend(more_work(&unset, figures)),
        Without::Nothing | Without::Hole | Without::Cause => {}
    }
    all
}

/// The cause is a part of the loss, and the program does more of something else.
fn more_work(unset: &Scenery<'_>, figures: &[&'static str]) -> Vec<Question> {
    let own = |name: &str| unset.truth.moves.iter().any(|(moved, ..)| *moved == name);
    let mut all = Vec::new();
    for figure in WORK.iter().filter(|figure| !own(figure)) {
        let counts = figures.contains(figure);
        let at = |part: f64, ratio: f64| {
            let mut scenery = unset.clone();
            scenery.beside_ns = scenery.rise_ns() * (1.0 / part - 1.0);
            scenery.moves.push((figure, 1000.0, 1000.0 * ratio));
            scenery
        };
        // Seven tenths of the loss are no mere part of more work.
        for (part, ratio, is_part_of_more) in [
            (0.5, 1.1 * (1.0 + NEAR), counts),
            (0.5, 1.1 * (1.0 - NEAR), false),
            (0.67, 2.0, counts),
            (0.73, 2.0, false),
        ] {
            let there = at(part, ratio);
            let truth = if is_part_of_more { there.with_hole() } else { there.cause() };
            all.push(there.ask(format!("{figure} times {ratio:.2}, the cause being {part} of the loss"), truth));
        }
    }
    all
}

/// A cause of less than a twentieth of the loss is none.
fn of_share(scenery: &Scenery<'_>) -> Vec<Question> {
    // These are parts of all time on CPUs, which the rest of the loss raises as well; small pages may cost more later.
    let is_of_all = matches!(scenery.truth.claims, Claims::Dearer("time:run.") | Claims::RiseAndTlb);
    if is_of_all || is_of("run.user", scenery.truth.time) {
        return Vec::new();
    }
    let at = |part: f64, holds: bool| {
        let loss = RISE_NS + BESIDE_NS;
        let there =
            Scenery { own_ns: [OWN_NS, OWN_NS + part * loss], beside_ns: (1.0 - part) * loss, ..scenery.clone() };
        there.ask(format!("it has {part} of the loss"), if holds { there.cause() } else { Answer::No })
    };
    vec![at(0.04, false), at(0.08, true)]
}

/// What is the cause's of the time by which its components rose, where other things change as well.
fn of_claim(scenery: &Scenery<'_>) -> Vec<Question> {
    let mut there = scenery.clone();
    match there.truth.claims {
        Claims::Rise | Claims::RiseAndTlb if !there.moves.iter().any(|(name, ..)| *name == OTHER_EVENT) => {
            there.moves.push((OTHER_EVENT, STEADY, 3.0 * STEADY));
        }
        // Half as many again of what became dearer.
        Claims::Dearer("time:run.") => there.moves.push(("time:run.user", PROGRAM_NS, 1.5 * PROGRAM_NS)),
        Claims::Dearer(figure) => {
            let figure = figure.split('+').next().expect("a name");
            let fast = there.figure(figure)[0];
            there.moves.push((figure, fast, 1.5 * fast));
        }
        _ => {}
    }
    let (fast, slow) = there.sides();
    let total = |side: &Side| side.components.values().sum::<f64>();
    let loss = total(&slow) - total(&fast);
    let claimed = match there.truth.claims {
        Claims::Rise | Claims::RiseAndTlb => there.rise_ns(),
        Claims::More(figure) => {
            let [fast, slow] = there.figure(figure);
            (OWN_NS / fast).min(there.rise_ns() / (slow - fast)) * (slow - fast)
        }
        Claims::Dearer(figure) => {
            let [fast, slow] = there.figure(figure);
            OWN_NS + there.rise_ns() - OWN_NS / fast * slow
        }
    };
    let mut all = vec![there.ask("its share of the loss", there.held(true, Some(claimed / loss)))];
    if matches!(there.truth.claims, Claims::Rise | Claims::RiseAndTlb) {
        let mut there = scenery.clone().over(&[("time:run.user", PROGRAM_NS, PROGRAM_NS + 5e8)]);
        (there.own_ns, there.beside_ns) = ([OWN_NS, OWN_NS + 6e6], 0.0);
        let is_rise = matches!(there.truth.claims, Claims::Rise);
        // Huge pages that are missing also cost misses of the TLB, where the program uses the memory.
        if !is_of("run.user", there.truth.time) {
            let truth = if is_rise { Answer::No } else { there.with_hole() };
            all.push(there.ask("next to all of the loss is in the program's own code", truth));
        }
    }
    all
}

/// One event costs no more than it can.
fn of_price(scenery: &Scenery<'_>) -> Vec<Question> {
    let (Claims::More(figure), Some(dearest_ns)) = (scenery.truth.claims, scenery.truth.dearest_ns) else {
        return Vec::new();
    };
    let figure = figure.split('+').next().expect("a name");
    let at = |price_ns: f64, can: bool| {
        let mut there = scenery.clone();
        let more = there.rise_ns() / price_ns;
        let moved = there.moved(figure);
        let ratio = moved.map_or(10.0, |[fast, slow]| slow / fast);
        let fast = more / (ratio - 1.0);
        // All else that the cause moves goes with it.
        let scale = moved.map_or(1.0, |[before, _]| fast / before);
        let counted: Vec<_> = there.moves.iter().filter(|(name, ..)| !name.starts_with("time:")).copied().collect();
        there.moves.extend(counted.iter().map(|(name, fast, slow)| (*name, fast * scale, slow * scale)));
        there.moves.push((figure, fast, fast * ratio));
        there.ask(format!("each of {figure} more costs {price_ns:.0} ns"), if can { there.cause() } else { Answer::No })
    };
    vec![at(dearest_ns * (1.0 - 2.0 * NEAR), true), at(dearest_ns * (1.0 + 2.0 * NEAR), false)]
}

/// What the rule says, and its reasons or doubts.
fn answer(rule: &ComponentRule, def: &'static CauseDef, question: &Question) -> (Answer, String) {
    let Some(scene) = Scene::of_comparison(&question.evidence, question.slower) else {
        return (Answer::No, "no comparison".to_owned());
    };
    match rule.examine_as(&scene, def) {
        Verdict::Holds(case) => {
            let answer = Answer::Cause {
                setting: case.setting.map(|setting| setting.key),
                is_whole: case.not_looked_at.is_empty(),
                share: case.effect.map(|effect| effect.share),
            };
            (answer, case.not_looked_at.join("; "))
        }
        Verdict::Refuted(reasons) | Verdict::Blocked(reasons) | Verdict::Unknown(reasons) => {
            (Answer::No, reasons.join("; "))
        }
    }
}

fn agrees(said: &Answer, truth: &Answer) -> bool {
    match (said, truth) {
        (Answer::No, Answer::No) => true,
        (
            Answer::Cause { setting, is_whole, share },
            Answer::Cause { setting: true_setting, is_whole: truly_whole, share: true_share },
        ) => {
            let near = true_share.is_none_or(|truth| share.is_some_and(|share| (share - truth).abs() < 0.05));
            setting == true_setting && is_whole == truly_whole && near
        }
        _ => false,
    }
}

/// The first question that the rule answers wrongly.
pub(super) fn disagreement<'a>(
    rule: &ComponentRule,
    def: &'static CauseDef,
    asked: &'a [Question],
) -> Option<&'a Question> {
    asked.iter().find(|question| !agrees(&answer(rule, def, question).0, &question.truth))
}

/// All of them, in words.
pub(super) fn disagreements(rule: &ComponentRule, def: &'static CauseDef, asked: &[Question]) -> Vec<String> {
    let wrong = |question: &Question| {
        let (said, why) = answer(rule, def, question);
        let is_wrong = !agrees(&said, &question.truth);
        is_wrong
            .then(|| format!("{}: {}: said {said:?}, true is {:?} ({why})", rule.cause, question.what, question.truth))
    };
    asked.iter().filter_map(wrong).collect()
}
