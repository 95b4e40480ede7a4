"""``eaco-opt methods``: what there is to run."""

from __future__ import annotations

from ..console import Out
from . import options as o


def command(json: o.JsonFlag = False, quiet: o.QuietFlag = False) -> None:
    """List the methods that `solve` and `compare` know."""
    screen = Out(json=json, quiet=quiet)
    from eaco_opt.policies import POLICIES
    from solvers.backends import backends
    from solvers.base import METHODS
    from solvers.catalogue import method_options, methods, policy_options

    found = methods()
    documents = []
    for info in found:
        row = info.row()
        if info.available and info.name in POLICIES:
            row["options"] = policy_options(info.name)
        elif info.available and info.name in METHODS:
            row["options"] = method_options(info.name)
        if info.name == "milp":
            row["backends"] = backends()
        documents.append(row)
    screen.document({"methods": documents})
    rows = [
        [
            m.name,
            m.kind,
            m.schedule_class or "-",
            "yes" if m.exact else "no",
            "yes" if m.online else "no",
            "yes" if m.available else "no",
            m.text,
        ]
        for m in found
    ]
    screen.table(["method", "kind", "class", "exact", "online", "available", "what it does"], rows, left=7)
    for document in documents:
        if "backends" in document:
            screen.table(
                [f"back end of {document['name']}", "solver", "can", "available"],
                [
                    [
                        b["name"],
                        b["title"],
                        ", ".join(b["abilities"]),
                        "yes" if b["available"] else b["how_to_get"],
                    ]
                    for b in document["backends"]
                ],
                left=4,
            )
    if not quiet:
        for document in documents:
            if document.get("options"):
                shown = ", ".join(
                    f"{k}={str(x).lower() if isinstance(x, bool) else x}"
                    for k, x in document["options"].items()
                )
                screen.say(f"options of {document['name']}: {shown}")
