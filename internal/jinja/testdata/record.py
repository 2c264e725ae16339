"""Renders templates with jinja2 as transformers sets it up, and writes what comes out to cases.json.

    python3 record.py > cases.json

templates.json holds templates by name; conversations are below. A case whose template raises has an error.
"""
import json
import sys
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime(2025, 3, 7, 14, 5, 9).strftime(f)
    return env


TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather <here> & there: 'now', \"é\"",
          "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "Where"},
                         "days": {"type": "integer", "default": 3}, "wind": {"type": ["number", "null"]}},
                         "required": ["place"]}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call12345", "type": "function", "function": {"name": "weather", "arguments": {"place": "Köln", "days": 2}}}]}
CONVERSATIONS = {
    "one": {"messages": [{"role": "user", "content": "Hello"}]},
    "system": {"messages": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "Hi!\n"}]},
    "turns": {"messages": [{"role": "user", "content": " 1+1? "}, {"role": "assistant", "content": " 2\n"},
                           {"role": "user", "content": "and \"2\"+'2' <b>?"}]},
    "think": {"messages": [{"role": "user", "content": "Why?"},
                           {"role": "assistant", "content": "<think>\nhm\n</think>\n\nBecause.", "name": "x"},
                           {"role": "user", "content": "Ok"}], "enable_thinking": False},
    "odd": {"messages": [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "No."}]},
    "tools": {"messages": [{"role": "user", "content": "Weather?"}], "tools": TOOLS},
    "called": {"messages": [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather?"}, CALL,
                            {"role": "tool", "name": "weather", "tool_call_id": "call12345", "content": "{\"t\": 21.5}"},
                            {"role": "user", "content": "Thanks"}], "tools": TOOLS},
    "closed": {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
               "add_generation_prompt": False},
}
BASE = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None}


def main():
    with open("templates.json") as f:
        templates = json.load(f)
    env, cases = environment(), []
    for name, text in templates.items():
        for what, values in CONVERSATIONS.items():
            case = {"template": name, "conversation": what, "values": {**BASE, **values}}
            try:
                case["text"] = env.from_string(text).render(**case["values"])
            except Exception as e:  # the kind of error is not compared, that there is one is
                case["error"] = type(e).__name__
            cases.append(case)
            if name.startswith("expr"):
                break
    json.dump(cases, sys.stdout, ensure_ascii=False, indent=0)


main()
