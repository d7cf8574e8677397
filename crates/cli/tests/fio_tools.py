"""Prints, as JSON, the rows that fio-plot makes of the JSON files in a directory: what it would draw.

Usage: fio_tools.py DIRECTORY RW
"""

import json
import sys

from fio_plot.fiolib import jsonimport, jsonparsing


def main():
    directory, rw = sys.argv[1:]
    settings = {
        "input_directory": [directory],
        "rw": rw,
        "filter": ["read", "write"],
        "iodepth": [1],
        "numjobs": [1, 2],
        "compare_graph": False,
    }
    dataset = jsonimport.list_json_files(settings)
    dataset = jsonimport.import_json_dataset(settings, dataset)
    rows = jsonparsing.parse_json_data(settings, dataset)[0]["data"]
    json.dump(rows, sys.stdout)


main()
