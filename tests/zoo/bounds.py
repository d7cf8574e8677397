"""What a run of the zoo must hold to end with status 0, and the record of the last one: `runs/TARGET.json`, to be committed.

A share breaks its bound when its whole 95 % interval (Wilson's) lies beyond it: a run of twenty cases cannot tell 5 from 8 %.
"""

import dataclasses
import datetime
import json

import judged

RUNS = judged.HERE / "runs"


@dataclasses.dataclass(frozen=True)
class Bound:
    """The most, or the least, that a share of cases may be, per cent."""

    about: str
    most_pct: float | None = None
    least_pct: float | None = None

    def said(self, hits, of):
        """Whether it holds, and the share as the record has it."""
        low, high = judged.wilson(hits, of) if of else (0.0, 100.0)
        holds = of > 0 and (self.most_pct is None or low <= self.most_pct) and (self.least_pct is None or high >= self.least_pct)
        return {"about": self.about, "hits": hits, "of": of, "ci95_pct": [round(low, 1), round(high, 1)], "most_pct": self.most_pct,
                "least_pct": self.least_pct, "holds": holds}


# Each by the name that its program gives it. The level of the tests is 5 %: so often something may be found where there is nothing.
BOUNDS = {
    "alike.anything": Bound("pairs that are alike in which anything is found", most_pct=5),
    "alike.mechanism": Bound("pairs that are alike with a finding above correlated", most_pct=1),
    "sized.first": Bound("known causes of 10 % and more: the right one first", least_pct=90),
    "sized.accused": Bound("cases with a wrong cause above correlated", most_pct=2),
    "sized.open": Bound("losses that no rule knows: nobody accused, the component in the first 3", least_pct=90),
    "ablate.accused": Bound("losses of another reason with settings to blame: one is accused", most_pct=2),
    "claims.right": Bound("claims that are told right", least_pct=90),
    "claims.false_confirmed": Bound("claims that are not true and were confirmed", most_pct=1),
    "fixes.work": Bound("fixes that bring back what they are to", least_pct=95),
    "zoo.right": Bound("cases with the right answer", least_pct=95),
    "zoo.accused": Bound("cases with a wrong cause above correlated", most_pct=1),
}


def ended(target, shares):
    """Keeps the record of a run and says what broke its bound; gives the status. `shares`: hits and cases by name."""
    said = {name: BOUNDS[name].said(hits, of) for name, (hits, of) in shares.items()}
    RUNS.mkdir(exist_ok=True)
    record = {"date": datetime.date.today().isoformat(), "commit": judged.commit(), "rules": judged.rules(), "shares": said}
    (RUNS / f"{target}.json").write_text(json.dumps(record, indent=1) + "\n")
    broken = [one for one in said.values() if not one["holds"]]
    for one in broken:
        needed = f"at most {one['most_pct']} %" if one["most_pct"] is not None else f"at least {one['least_pct']} %"
        print(f"{one['about']}: found {one['hits']} of {one['of']} {one['ci95_pct']} %, needed {needed}")
    return 1 if broken else 0
