"""classes.py FOLDER COUNT: so many classes that use generics, lambdas and switches, for a compiler to work on."""
import pathlib
import sys

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for number in range(count):
    methods = "".join(
        f"""
    public Map<String, List<Integer>> group{method}(List<Integer> all) {{
        int limit = switch (all.size() % 4) {{ case 0 -> {method}; case 1 -> all.size(); default -> {number}; }};
        return all.stream().filter(one -> one > limit).map(one -> one * {method + 1})
            .collect(Collectors.groupingBy(one -> "k" + one % 7, TreeMap::new, Collectors.toList()));
    }}
"""
        for method in range(12)
    )
    text = f"import java.util.*;\nimport java.util.stream.*;\n\npublic class Part{number} {{{methods}}}\n"
    (folder / f"Part{number}.java").write_text(text)
