"""Takes secrets out of text before it reaches a file or a terminal."""

import re

USER_INFO = re.compile(r"(?<=://)[^/\s@]*:[^/\s@]*@")
# Tokens that carry their kind in front: Hugging Face, GitHub, OpenAI and Anthropic, AWS, Slack.
TOKENS = re.compile(r"\b(hf_|ghp_|gho_|github_pat_|sk-|AKIA|xox[abp]-)[A-Za-z0-9_-]{12,}")


def redact(text: str) -> str:
    """`text` without the `user:password@` of its URLs and without what is recognisably an access token."""
    return TOKENS.sub(r"\1***", USER_INFO.sub("***@", text))
