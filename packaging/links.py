"""The links of Markdown pages, for packaging/site and packaging/wheel."""

import re

LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^()\s]+)\)")


def with_links(text, rewritten):
    """The text with rewritten(whole, said, target) in place of each link outside of blocks of code; `whole` is the link as it is written."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)  # every second one is a block of code
    parts[::2] = [LINK.sub(lambda link: rewritten(link[0], link[2], link[3]), part) for part in parts[::2]]
    return "".join(parts)
