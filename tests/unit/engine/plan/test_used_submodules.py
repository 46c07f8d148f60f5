"""What a function of the job's script has imported by `import package.module` is there in workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import pickle
import sys
import xml.dom.minidom
import xml.etree

from penstock.engine.plan.program_pickler import dumps

def direct(text):
    return xml.dom.minidom.parseString(text).toxml()

def in_comprehension(text):
    return "".join([xml.dom.minidom.parseString(one).toxml() for one in [text]])

def in_function_inside(text):
    def call():
        return (lambda: xml.dom.minidom.parseString(text).toxml())()
    return call()

class OfClass:
    async def invoke(self, text):
        def call():
            return xml.dom.minidom.parseString(text).toxml()
        return call()

    def __call__(self, text):
        try:
            self.invoke(text).send(None)
        except StopIteration as end:
            return end.value

def by_closure(package):
    def call(text):
        return [package.dom.minidom.parseString(one).toxml() for one in [text]][0]
    return call

functions = direct, in_comprehension, in_function_inside, OfClass(), by_closure(xml)
sys.stdout.buffer.write(pickle.dumps([dumps(function) for function in functions]))
"""
WORKER = """
import pickle, sys
for sent in pickle.loads(sys.stdin.buffer.read()):
    for name in [name for name in sys.modules if name.startswith("xml")]:
        del sys.modules[name]  # as in a worker that has run none of the others
    function = pickle.loads(sent)
    assert function("<a/>").endswith("<a/>"), function
assert "xml.etree" not in sys.modules, "nothing uses it"
"""


def test_submodules_are_imported_where_functions_arrive(tmp_path: Path) -> None:
    """`import urllib.request`, used by a lambda or in a list comprehension, failed in workers: no such attribute."""
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    sent = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert sent.returncode == 0, sent.stderr.decode()
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent.stdout, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
