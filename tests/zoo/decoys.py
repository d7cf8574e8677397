"""Differences between two sides that cost nothing: what a careless reader would blame."""

import dataclasses

from cases import QUEUE


@dataclasses.dataclass
class Decoy:
    """A harmless difference. `touches`: the kinds of work that it would not be harmless to."""

    name: str
    touches: str = ""
    settings: dict = dataclasses.field(default_factory=dict)
    env: dict = dataclasses.field(default_factory=dict)
    prefix: tuple = ()

    def added(self, side):
        """The side with the decoy. What the side says itself stays."""
        return dataclasses.replace(side, settings=self.settings | side.settings, env=self.env | side.env,
                                   prefix=[*self.prefix, *side.prefix])


VM = "/proc/sys/vm"
DECOYS = [
    Decoy("swappiness", settings={f"{VM}/swappiness": "10"}),
    Decoy("cache_pressure", settings={f"{VM}/vfs_cache_pressure": "150"}),
    Decoy("dirty_ratio", "dirty", settings={f"{VM}/dirty_background_ratio": "8"}),
    Decoy("overcommit", settings={f"{VM}/overcommit_ratio": "70"}),
    Decoy("max_map_count", settings={f"{VM}/max_map_count": "131072"}),
    Decoy("page_cluster", settings={f"{VM}/page-cluster": "2"}),
    Decoy("readahead", "readahead", settings={f"{QUEUE}/read_ahead_kb": "256"}),
    Decoy("nr_requests", "readahead", settings={f"{QUEUE}/nr_requests": "96"}),
    Decoy("khugepaged", settings={"/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan": "2048"}),
    Decoy("arenas", "malloc", env={"MALLOC_ARENA_MAX": "4"}),
    Decoy("locale", env={"LC_ALL": "C.UTF-8"}),
    Decoy("library_path", env={"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}),
    Decoy("nofile", prefix=("prlimit", "--nofile=2048")),
    Decoy("core", prefix=("prlimit", "--core=0")),
    Decoy("io_class", "io", prefix=("ionice", "-c", "2", "-n", "3")),
]


def drawn(draw, kind, count):
    """`count` decoys that are harmless to a kind."""
    return draw.sample([decoy for decoy in DECOYS if decoy.touches not in kind.touches], count)
