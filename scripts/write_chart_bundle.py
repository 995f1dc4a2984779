"""Writes the JavaScript that draws charts in a report: Vega, Vega-Lite and Vega-Embed as one file.

    write_chart_bundle.py OUTPUT.js

They come from the wheel vl-convert-python, which bundles them itself, so that the page and the pictures in Markdown are
drawn by the same versions. The licence that their redistribution asks for goes with them.
"""
import pathlib
import sys

import vl_convert

LICENCE = """/*! Vega, Vega-Lite, Vega-Embed, Vega-Tooltip and D3, unchanged.
Vega: Copyright (c) 2015-2023, University of Washington Interactive Data Lab. D3: Copyright 2010-2023 Mike Bostock.
Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
following conditions are met: redistributions of source code must retain the above copyright notice, this list of
conditions and the following disclaimer; redistributions in binary form must reproduce them in the documentation and/or
other materials provided with the distribution; neither the name of the copyright holder nor the names of its
contributors may be used to endorse or promote products derived from this software without specific prior written
permission. THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED
WARRANTIES ARE DISCLAIMED; IN NO EVENT SHALL THEY BE LIABLE FOR ANY DAMAGES ARISING IN ANY WAY OUT OF THE USE OF THIS
SOFTWARE. */
"""


def main():
    newest = vl_convert.get_vegalite_versions()[-1]
    code = vl_convert.javascript_bundle(vl_version=newest)
    for end in ("</script", "<!--"):  # inside a string either form means the same
        code = code.replace(end, end.replace("</", "<\\/").replace("<!", "<\\!"))
    # A function of its own: the bundle's top-level names are one or two letters long.
    text = LICENCE + "(function(){" + code + "})();\n"
    pathlib.Path(sys.argv[1]).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
