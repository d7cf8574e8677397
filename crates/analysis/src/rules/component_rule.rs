//! A rule that rests on components of the account of time, as data.
//!
//! Most causes show in the same way: time of certain components rises (`vocab::causes`), certain counters rise with it, a
//! setting differs or the program asks for something else, and nothing that would bring about the same is there. Such a cause
//! is declared as one [`ComponentRule`]; what it claims is the time by which its components moved, or the part of that which
//! more events, or dearer ones, account for ([`Part`]).

use super::chain::{CaseParts, Chain};
use super::effect::{self, ACCOUNT, Cost, OfRun};
use super::evidence::SideEvidence;
use super::finding::{Effect, Fix, Number, Reach, SettingSubject};
use super::lever::{Lever, changed_setting};
use super::more_work;
use super::quantity::{Change, OWN_CODE, Quantity, Sign, Way, amount};
use super::restore;
use super::scene::Scene;
use super::{Manual, Rule, Verdict};
use pagelab_vocab::causes::{CauseDef, cause};
use pagelab_vocab::units::duration_of_three;

/// Which part of its components' time a cause claims.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// All of it.
    All,
    /// All of it, of huge pages that are missing; they also cost misses of the TLB, which no component holds.
    AllOfHugePages,
    /// What more of these events cost, at the other side's price, and no more than the time rose by. Where another sign stands in for
    /// that of the events, its events are meant.
    MoreOf(Quantity),
    /// What the same events cost more than on the other side.
    DearerBy(Quantity),
}

/// Which of its components' time is the cause's, by the way into the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Spent {
    /// All of it.
    Anyhow,
    /// What was spent in this way; where no stacks tell, all of it, and the chain has a hole.
    InIfTold(Way),
    /// What was spent in this way, which nothing else tells: without stacks the cause is not known.
    In(Way),
}

impl Spent {
    fn way(self) -> Option<Way> {
        match self {
            Self::Anyhow => None,
            Self::InIfTold(way) | Self::In(way) => Some(way),
        }
    }
}

/// Whether one of the levers has to differ.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NeedsLever {
    /// Nothing else brings the cause about, and its signs have other causes too: without a lever it is refuted.
    Always,
    /// The same, unless this sign is seen, which nothing else brings about.
    AlwaysUnless(&'static Sign),
    /// Without one the chain has a hole: the cause is no more than correlated.
    ForMechanism,
    /// Without one, and where other work rises as well, the cause may be a part of more work: it is no more than correlated unless it
    /// explains most of the loss.
    UnlessMoreWork(&'static [Sign]),
    /// The signs tell the cause: the program, or the state of the host, can bring it about as well.
    Never,
}

#[cfg(test)]
impl NeedsLever {
    /// Whether no lever refutes it, if no sign stands for one.
    pub(crate) const fn is_always(self) -> bool {
        matches!(self, Self::Always | Self::AlwaysUnless(_))
    }
}

/// A change that would bring about the same, or that contradicts the cause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refuter {
    pub sign: Sign,
    /// What it would mean.
    pub means: &'static str,
}

/// A remedy. In a command `{device}` is the target's block device, and `{group}` the folder of the program's control group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remedy {
    pub reach: Reach,
    pub text: &'static str,
    pub command: &'static str,
}

/// Lets glibc keep what is freed. Either of the two alone switches off that malloc fits the other to the program (mallopt(3)), and
/// blocks of more than 128 KiB are mapped each time. 32 MiB is the most that every version takes.
pub(crate) const KEEP_FREED: &str =
    "env GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456 COMMAND";

/// A cause that shows in components of the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComponentRule {
    /// Identifier in `vocab::causes`.
    pub cause: &'static str,
    /// What the time is spent on, after "spends 3 us per operation": `in direct reclaim`.
    pub doing: &'static str,
    /// What must have changed, all of it.
    pub signs: &'static [Sign],
    pub part: Part,
    /// The way into the kernel in which its components' time is the cause's.
    pub spent: Spent,
    /// Settings that bring it about, most likely first.
    pub levers: &'static [Lever],
    pub needs_lever: NeedsLever,
    pub refuters: &'static [Refuter],
    /// Causes that explain the same time better where they hold.
    pub yields_to: &'static [&'static str],
    /// Remedies beside putting the setting back.
    pub remedies: &'static [Remedy],
}

/// Part of the slow side's events that the fast side must have to tell what one costs.
const TELLING_PART: f64 = 0.1;

/// Share of the time from which a lone recording is told about.
const LONE_SHARE: f64 = 0.10;

impl Rule for ComponentRule {
    fn cause(&self) -> &'static str {
        self.cause
    }

    fn manual(&self) -> Manual {
        self.describe()
    }

    fn yields_to(&self) -> &'static [&'static str] {
        self.yields_to
    }

    fn examine(&self, scene: &Scene<'_>) -> Verdict {
        match cause(self.cause) {
            Some(def) => self.examine_as(scene, def),
            None => Verdict::Unknown(vec![format!("{} is in no registry", self.cause)]),
        }
    }
}

/// What a cause with levers needs of them.
const LEVER: &str = "a setting that can bring it about is worse on the slower side";

impl ComponentRule {
    /// Looks for the cause as `def` declares it.
    pub(crate) fn examine_as(&self, scene: &Scene<'_>, def: &'static CauseDef) -> Verdict {
        if let Some(reason) = unknown_account(scene, def) {
            return Verdict::Unknown(vec![reason]);
        }
        let mut chain = Chain::default();
        let setting = self.setting(scene, &mut chain);
        self.say_time(scene, def, &mut chain);
        self.examine_signs(scene, &mut chain);
        self.examine_price(scene, def, &mut chain);
        let effect = if chain.stands() { effect::effect(scene, &self.cost(scene, def)) } else { None };
        let effect = match (scene.fast, self.part) {
            (Some(_), Part::AllOfHugePages) => effect::huge_pages_link(scene, effect, None, &mut chain),
            (Some(_), _) => effect::material_link(scene, effect, None, &mut chain),
            (None, _) => lone_link(effect, &mut chain),
        };
        if let (NeedsLever::UnlessMoreWork(others), None) = (self.needs_lever, &setting) {
            let share = effect.as_ref().map_or(0.0, |effect| effect.share);
            chain.doubts(more_work::doubt(scene, others, share));
        }
        chain.close(scene, |scene| self.parts(scene, def, setting, effect))
    }

    fn describe(&self) -> Manual {
        let whats: Vec<&str> = self.signs.iter().map(|sign| sign.what).collect();
        let components = cause(self.cause).map_or_else(Vec::new, |def| def.components.to_vec());
        let mut holds_if = vec![format!("the time spent {} explains at least 5 % of the loss", self.doing)];
        holds_if.extend(self.spent.way().map(|way| format!("that time is spent {}", way.words())));
        holds_if.extend(self.signs.iter().map(Sign::condition));
        match self.needs_lever {
            NeedsLever::Never => {}
            NeedsLever::UnlessMoreWork(others) => {
                holds_if.push(format!("{LEVER}, or {}", more_work::condition(others)));
            }
            NeedsLever::AlwaysUnless(sign) => holds_if.push(format!("{LEVER}, or {}", sign.condition())),
            NeedsLever::Always | NeedsLever::ForMechanism => holds_if.push(LEVER.to_owned()),
        }
        let mut refuted_by: Vec<String> =
            self.refuters.iter().map(|refuter| format!("{}: {}", refuter.sign.condition(), refuter.means)).collect();
        if matches!(self.part, Part::MoreOf(_)) {
            refuted_by.push("an event would have cost more than one can".to_owned());
        }
        refuted_by
            .extend(self.yields_to.iter().map(|better| format!("`{better}` holds, which explains the same time")));
        refuted_by.push("it explains less than 5 % of the lost time (upper end of the interval)".to_owned());
        Manual {
            looks_at: format!("the components {}, and {}", components.join(", "), whats.join(", ")),
            holds_if,
            refuted_by,
            alone: match self.needs_lever {
                NeedsLever::Always | NeedsLever::AlwaysUnless(_) => {
                    "nothing: whether a setting differs takes another side".to_owned()
                }
                _ => format!("at least {:.0} % of the time is spent {}", LONE_SHARE * 100.0, self.doing),
            },
            fixes: self.remedies.iter().map(|remedy| format!("{}: `{}`", remedy.text, remedy.command)).collect(),
        }
    }

    /// The setting to blame, with its link.
    fn setting(&self, scene: &Scene<'_>, chain: &mut Chain) -> Option<SettingSubject> {
        let found = changed_setting(scene, self.levers);
        let patterns = || self.levers.iter().map(|lever| lever.pattern).collect::<Vec<_>>().join(", ");
        let are_recorded = scene.side_without_settings().is_none();
        let needs = match self.needs_lever {
            NeedsLever::AlwaysUnless(sign) if found.is_none() && sign.is_seen(scene) == Some(true) => {
                chain.say(sign.sentence(scene));
                NeedsLever::Never
            }
            NeedsLever::AlwaysUnless(_) => NeedsLever::Always,
            needs => needs,
        };
        match (&found, needs) {
            (Some(setting), _) => chain.say(setting_sentence(scene, setting)),
            (None, NeedsLever::Always) if scene.fast.is_none() => {
                chain.needs(
                    None,
                    "",
                    "",
                    "whether a setting that can bring it about differs from what is usual, which needs another side,",
                );
            }
            (None, _) if scene.fast.is_none() => {}
            (None, NeedsLever::Always) if are_recorded => {
                let no =
                    format!("no setting that can bring it about is worse on {} ({})", scene.slow.word(), patterns());
                chain.needs(Some(false), "", no, "");
            }
            (None, NeedsLever::Always | NeedsLever::AlwaysUnless(_) | NeedsLever::ForMechanism) => {
                chain.doubt(format!("what brought it about: no setting that can is known to differ ({})", patterns()));
            }
            // Told when its share is known.
            (None, NeedsLever::UnlessMoreWork(_) | NeedsLever::Never) => {}
        }
        found
    }

    /// The time of the cause: that of its components, in its way where that is known of both sides.
    fn time(&self, scene: &Scene<'_>, def: &CauseDef) -> Quantity {
        let whole = Quantity::Time(def.components);
        let Some(way) = self.spent.way() else { return whole };
        let in_way = Quantity::TimeIn(def.components, way);
        if side_without(scene, in_way).is_none() { in_way } else { whole }
    }

    fn say_time(&self, scene: &Scene<'_>, def: &CauseDef, chain: &mut Chain) {
        let time = self.time(scene, def);
        if let (Some(way), Quantity::Time(_)) = (self.spent.way(), time) {
            let doubt = format!("whether the time was spent {}: no stacks tell", way.words());
            match self.spent {
                Spent::In(_) => chain.needs(None, "", "", &doubt),
                Spent::InIfTold(_) | Spent::Anyhow => chain.doubt(doubt),
            }
        }
        let said = |side: &SideEvidence| {
            let ns = time.median(scene, side).unwrap_or(f64::NAN);
            format!("{} spends {} per {} {}", side.word(), amount(ns, "ns"), scene.evidence.per(), self.doing)
        };
        let other = scene.fast.map_or_else(String::new, |fast| format!(", {}", said(fast)));
        chain.say(format!("{}{other}", said(scene.slow)));
    }

    fn examine_signs(&self, scene: &Scene<'_>, chain: &mut Chain) {
        for sign in self.signs {
            let seen = match (scene.fast, sign.change) {
                (Some(_), _) => sign.is_seen(scene),
                (None, Change::Rises(_) | Change::RisesTo(..)) => {
                    sign.quantity.median(scene, scene.slow).map(|value| value > 0.0)
                }
                (None, Change::Falls(_) | Change::Keeps(_) | Change::StaysBelow(_)) => {
                    chain.doubt(format!("{}: only another side can tell whether it is low", sign.what));
                    continue;
                }
            };
            let said = sign.sentence(scene);
            chain.needs(seen, said.clone(), format!("not as the cause would have it: {said}"), sign.what);
        }
        if scene.fast.is_none() {
            return;
        }
        for refuter in self.refuters {
            let said = refuter.sign.sentence(scene);
            chain.refuter(
                refuter.sign.is_seen(scene),
                format!("{}: {said}", refuter.means),
                format!("{}: no ({said})", refuter.means),
                refuter.sign.what,
            );
        }
    }

    /// One event cannot cost more than the registry's limits.
    fn examine_price(&self, scene: &Scene<'_>, def: &CauseDef, chain: &mut Chain) {
        let Part::MoreOf(events) = self.part else { return };
        let events = self.counted(scene, events);
        let mut examine = |time: Quantity, of: &str, most: Option<f64>| {
            let Some((price, most)) = rise_for_each(scene, time, events).zip(most) else { return };
            let what = def.event.what;
            let price_said = duration_of_three(price);
            chain.refuter(
                Some(price > most),
                format!(
                    "each {what} more would have cost {price_said}{of}, and cannot cost more than {}: something else took the time",
                    duration_of_three(most)
                ),
                format!("an impossible price: {price_said}{of} for each {what} more"),
                "",
            );
        };
        examine(self.time(scene, def), "", def.event.most(scene.page_bytes()));
        // A rise that is no more than the noise of the runs is no price.
        let most_own_ns = def.event.most_own_ns.filter(|_| OWN_CODE.is_seen(scene) == Some(true));
        examine(OWN_CODE.quantity, " in the program's own code", most_own_ns.map(|most| most as f64));
    }

    /// The events, or those of the sign that stands in for theirs.
    fn counted(&self, scene: &Scene<'_>, events: Quantity) -> Quantity {
        self.signs.iter().find(|sign| sign.quantity == events).map_or(events, |sign| sign.seen_quantity(scene))
    }

    fn cost<'a>(&'a self, scene: &'a Scene<'a>, def: &'static CauseDef) -> Cost<'a> {
        let time = self.time(scene, def);
        let price = |events: Quantity| -> Option<f64> {
            let count_of = |side: &SideEvidence| events.median(scene, side);
            let of = |side: &SideEvidence| {
                let (ns, count) = (time.median(scene, side)?, count_of(side)?);
                (count > 0.0).then(|| ns / count)
            };
            // The few events of the fast side may be somebody else's, for whom the program does not wait: they tell no price.
            let most = count_of(scene.slow).unwrap_or(0.0);
            let telling = scene.fast.filter(|fast| count_of(fast).is_some_and(|count| count >= TELLING_PART * most));
            telling.and_then(of).or_else(|| of(scene.slow))
        };
        let of_run: OfRun<'a, f64> = match self.part {
            Part::All | Part::AllOfHugePages => Box::new(move |run| time.of_run(scene, run)),
            Part::MoreOf(_) | Part::DearerBy(_) if scene.fast.is_none() => Box::new(move |run| time.of_run(scene, run)),
            Part::MoreOf(events) => {
                let events = self.counted(scene, events);
                // The other side's components also hold what the program does there anyway. Where their time did not rise, more events
                // cost nothing.
                let dearest = rise_for_each(scene, time, events).unwrap_or(0.0);
                let price = price(events).map(|price| price.min(dearest));
                Box::new(move |run| Some(events.of_run(scene, run)? * price?))
            }
            Part::DearerBy(events) => {
                let price = price(events);
                Box::new(move |run| Some(time.of_run(scene, run)? - events.of_run(scene, run)? * price?))
            }
        };
        let method = match self.part {
            Part::All | Part::AllOfHugePages => effect::COMPONENTS,
            Part::MoreOf(_) => "more of its events, at the other side's price or the rise for each, whichever is less",
            Part::DearerBy(_) => "dearer events, as many as there were",
        };
        Cost { method, resource: ACCOUNT, of_run, bounds: None, samples: None, account: None }
    }

    fn parts(
        &self,
        scene: &Scene<'_>,
        def: &CauseDef,
        setting: Option<SettingSubject>,
        effect: Option<Effect>,
    ) -> CaseParts {
        let time = self.time(scene, def);
        let spent = |side: &SideEvidence| amount(time.median(scene, side).unwrap_or(f64::NAN), "ns");
        let other = scene.fast.map_or_else(String::new, |fast| format!(", {} on {}", spent(fast), fast.word()));
        let because =
            setting.as_ref().map_or_else(String::new, |setting| format!(": {}", setting_sentence(scene, setting)));
        let summary = format!(
            "{}: {} spends {} per {} {}{other}{because}",
            scene.movement(),
            scene.slow.word(),
            spent(scene.slow),
            scene.evidence.per(),
            self.doing
        );
        let mut numbers = vec![number(scene, self.doing, "ns", time)];
        numbers.extend(self.signs.iter().map(|sign| number(scene, sign.what, sign.unit, sign.quantity)));
        CaseParts {
            summary,
            effect,
            mapping: None,
            fixes: self.fixes(scene, setting.as_ref()),
            setting,
            together_with: Vec::new(),
            numbers,
        }
    }

    fn fixes(&self, scene: &Scene<'_>, setting: Option<&SettingSubject>) -> Vec<Fix> {
        let device = scene.device.unwrap_or("DEVICE");
        let is_v1 = |controller: &str| scene.slow.setting(&format!("cgroup.{controller}.version")) == Some("1");
        let own = self.remedies.iter().map(|remedy| Fix {
            reach: remedy.reach,
            text: remedy.text.to_owned(),
            command: restore::in_group(&remedy.command.replace("{device}", device), is_v1),
        });
        let back =
            setting.filter(|_| scene.fast.is_some()).and_then(|setting| restore::fix(setting, scene.slow.name, is_v1));
        back.into_iter().chain(own).collect()
    }
}

/// The time that each event more took, ns; `None` unless both rose.
fn rise_for_each(scene: &Scene<'_>, time: Quantity, events: Quantity) -> Option<f64> {
    let fast = scene.fast?;
    let rise = |of: Quantity| Some(of.median(scene, scene.slow)? - of.median(scene, fast).unwrap_or(0.0));
    let (more_ns, more) = (rise(time)?, rise(events)?);
    (more_ns > 0.0 && more > 0.0).then(|| more_ns / more)
}

/// A side that does not know the quantity.
fn side_without<'a>(scene: &Scene<'a>, quantity: Quantity) -> Option<&'a SideEvidence> {
    let sides = [Some(scene.slow), scene.fast];
    sides.into_iter().flatten().find(|side| quantity.median(scene, side).is_none())
}

/// Why the time of the cause's components is not known on a side, if it is not.
fn unknown_account(scene: &Scene<'_>, def: &CauseDef) -> Option<String> {
    let side = side_without(scene, Quantity::Time(def.components))?;
    let reason =
        side.runs.iter().find_map(|run| run.account.as_ref()?.reason()).unwrap_or("the stream waits was not recorded");
    Some(format!("where the time of {} went is not known: {reason}", side.word()))
}

fn number(scene: &Scene<'_>, name: &str, unit: &str, quantity: Quantity) -> Number {
    let name = if quantity.is_of_work() { format!("{name} per {}", scene.evidence.per()) } else { name.to_owned() };
    let name = format!("{name}{}", quantity.devices_words(scene));
    // Shares are told in per cent.
    let scale = if unit == "%" { 100.0 } else { 1.0 };
    scene.number(&name, unit, |run| quantity.of(scene, run).map(|value| scale * value))
}

fn setting_sentence(scene: &Scene<'_>, setting: &SettingSubject) -> String {
    let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    if scene.fast.is_some() {
        format!("{} is {} on base and {} on test", setting.key, show(&setting.base), show(&setting.test))
    } else {
        format!("{} is {}", setting.key, show(&setting.test))
    }
}

/// A lone recording: the components must have a part of the time that is worth a word.
fn lone_link(effect: Option<Effect>, chain: &mut Chain) -> Option<Effect> {
    let share = effect.as_ref().map(|effect| effect.share);
    let said = share.map_or_else(String::new, |share| format!("{:.0} % of the time", share * 100.0));
    chain.needs(share.map(|share| share >= LONE_SHARE), said.clone(), format!("only {said}"), "its share of the time");
    effect
}
