"""A class as a target: a cache that lives through a sequence of calls, which `attnfuzz sequence` draws and judges.

    @attnfuzz.cache(errors=attnfuzz.Errors(accumulator="ffma"))
    class Mine:
        def __init__(self, setup): ...
        def append(self, p, k, v, k_new, v_new, key_lengths, block_table): ...
        def copy_pages(self, p, k, v, copies): ...
        def attend(self, p, q, k, v, key_lengths, block_table): return o, lse

    attnfuzz sequence ./mine.py:Mine --cases 1000
"""

import inspect
from dataclasses import dataclass, field, fields, replace

from attnfuzz.contract import OPERATIONS
from attnfuzz.declare import Target, Unsupported, target
from attnfuzz.domain import Domain
from attnfuzz.operations import has_groups, outputs_of

# The methods that make calls, with their operations.
CALLS = {"append": "append", "copy_pages": "copy_pages", "attend": "forward", "merge": "merge"}
# The features that calls in sequences can have, and the part of them that an operation can have. "paged" is added if
# the pages are attnfuzz's.
_DRAWN = ("packed", "paged", "int32")
_FEATURES = {"append": ("packed", "int32"), "copy_pages": ("int32",), "merge": ()}
# The methods that tell a class with memory of its own about its sequences, with their parameters.
VERBS = {"new": ("sequence",), "fork": ("source", "sequence"), "truncate": ("sequence", "length"), "free": ("sequence",)}
# A method may ask for these beside the parameters of its operation.
_EXTRAS = ("sequences", "plan")


@dataclass(frozen=True)
class Setup:
    """The sizes of a sequence of calls, given to __init__.

    capacity: the most keys of a sequence; sequences: how many may exist at once, numbered from 0; pages: in the pool of
    K, and in that of V. A class with memory of its own never needs more pages than this, even if its sequences share
    none.
    """

    dtype: str = "f16"
    heads_q: int = 1
    heads_kv: int = 1
    dim_qk: int = 1
    dim_v: int = 1
    page_size: int = 1
    pages: int = 1
    capacity: int = 1
    sequences: int = 8

    @property
    def pages_per_sequence(self):
        return -(-self.capacity // self.page_size)

    @staticmethod
    def of(told, own):
        """Made from the setup of a file (docs/sequences.md), whose other fields do not concern a class."""
        known = {one.name for one in fields(Setup)}
        setup = Setup(**{name: value for name, value in told.items() if name in known})
        # One page more for each sequence, so that a shared page can be copied before the old one is given back.
        return replace(setup, pages=setup.sequences * (setup.pages_per_sequence + 1)) if own else setup


@dataclass
class Method(Target):
    """A method that makes calls of one operation."""

    method: str = ""
    own: bool = False  # the class keeps keys and values itself

    _kind, _behind = "a method", " after self"

    def _parameters(self):
        names = super()._parameters()[1:]  # without self
        self.extras = [name for name in _EXTRAS if name in names]
        return [name for name in names if name not in _EXTRAS]

    def _arguments(self):
        needed, others = super()._arguments()
        others = [*others, *_EXTRAS]
        if not self.own:
            return needed, others
        needed = [name for name in needed if name not in ("k", "v")]  # lengths and pages, too, are the class's own
        return needed, [name for name in others if name not in ("key_lengths", "block_table", "bias", "mask", "cu_seqlens_k")]

    def _needs(self):
        return {**super()._needs(), "packed": ("cu_seqlens_q",)}  # keys lie in pages

    def _check_features(self):
        if not self.own:
            return super()._check_features()
        if "sequences" not in self.extras:
            raise TypeError(f"{self.__name__} of a class with memory of its own needs the parameter sequences")
        if "packed" in self.domain.features and "cu_seqlens_q" not in self.takes:
            raise TypeError(f"Domain(features=...) has 'packed': {self.__name__} needs the parameter cu_seqlens_q")


@dataclass
class Cache:
    """A class with its declaration. Calling it makes an instance."""

    cls: type
    memory: str = "pools"
    declared: dict = field(default_factory=dict)  # what target() takes

    def __post_init__(self):
        self.__name__, self.__doc__, self.__module__ = self.cls.__name__, self.cls.__doc__, self.cls.__module__
        if self.memory not in ("pools", "own"):
            raise ValueError(f"cache(memory={self.memory!r}): 'pools' or 'own'")
        there = [name for name in CALLS if callable(getattr(self.cls, name, None))]
        due = ("append", "attend", *VERBS) if self.own else ("attend",) if "merge" in there else ()
        for name in due:
            if not callable(getattr(self.cls, name, None)):
                raise TypeError(f"{self.__name__} has no method {name}, which a class with "
                                f"{'memory of its own' if self.own else 'the method merge'} needs")
        if not there:
            raise TypeError(f"{self.__name__} has none of the methods {', '.join(CALLS)}")
        if self.own and (unused := [name for name in there if name not in ("append", "attend")]):
            raise TypeError(f"{self.__name__} has memory of its own, so its method {unused[0]} is never called")
        for name, parameters in VERBS.items() if self.own else ():
            try:
                inspect.signature(getattr(self.cls, name)).bind(self, *parameters)
            except TypeError:
                raise TypeError(f"{self.__name__}.{name} is called with ({', '.join(parameters)})") from None
        if unknown := [word for word in self.domain.features if word not in _DRAWN]:
            raise ValueError(f"{self.__name__}: Domain(features=...) has {unknown[0]!r}, which no sequence of calls has: only "
                             f"{', '.join(map(repr, _DRAWN))}. Check a function with it")
        try:
            inspect.signature(self.cls).bind(Setup())
        except TypeError:
            raise TypeError(f"{self.__name__} needs __init__(self, setup): an instance is made with a Setup") from None
        self.calls = there
        self.methods = {CALLS[name]: self._method(name) for name in there}
        if any("plan" in m.extras for m in self.methods.values()) and not callable(getattr(self.cls, "plan", None)):
            raise TypeError(f"{self.__name__} has no method plan(self, method, p), and a method has the parameter plan")
        first = next(iter(self.methods.values()))
        self.device, self.arrays, self.bf16, self.backend = first.device, first.arrays, first.bf16, first.backend
        text = self.__doc__ or f"{self.__name__} of {self.__module__}"
        self.description = self.declared.get("description") or text.strip().split("\n")[0]

    def _method(self, name):
        operation, domain = CALLS[name], self.domain
        features = [word for word in domain.features if word in _FEATURES.get(operation, domain.features)]
        if operation != "merge" and not self.own and "paged" not in features:
            features.append("paged")
        made = target(**{**self.declared, "domain": Domain(), "operation": "forward"})(lambda p, q, k, v, out=None, lse=None: None)
        given = {one.name: getattr(made, one.name) for one in fields(Target)}
        # An append, say, has no LSE that it could leave out, and no groups of query heads.
        lse = domain.lse or "lse" not in outputs_of(OPERATIONS[operation])
        group = domain.group if has_groups(operation) else None
        given.update(function=getattr(self.cls, name), operation=operation, description="",
                     domain=replace(domain, features=tuple(features), lse=lse, group=group))
        return Method(**given, method=name, own=self.own)

    @property
    def own(self):
        return self.memory == "own"

    @property
    def domain(self):
        return self.declared.get("domain", Domain())

    @domain.setter
    def domain(self, domain):
        self.declared = {**self.declared, "domain": domain}
        self.__post_init__()

    def words(self):
        """As Target.words()."""
        return self.methods.get("forward", next(iter(self.methods.values()))).words()

    def __call__(self, *args, **kwargs):
        return self.cls(*args, **kwargs)


def cache(cls=None, *, memory="pools", **declared):
    """Declares a class as a target of `attnfuzz sequence`: a decorator, with or without arguments.

    The class is instantiated once for each sequence of calls, with a Setup. Its methods append, copy_pages, attend and
    merge are called like functions of the operations "append", "copy_pages", "forward" and "merge" (target()), with
    keys in pages. The class need not have all. A call whose method is missing is counted, or made by another kernel
    that is named beside the class.

    memory   "pools": keys and values lie in the pools that each call brings. Or "own": the class keeps them itself. It then
             has the methods new(sequence), fork(source, sequence), truncate(sequence, length) and free(sequence), too, and
             append(p, k_new, v_new, sequences) and attend(p, q, sequences). Sequences are numbers; append drops tokens beyond
             setup.capacity.
    declared as for target(): device, arrays, tiles, errors, domain, description, path, compiles, bf16

    A method may also have the parameters `sequences`, the numbers of the batch entries' sequences, and `plan`: what the class's
    method plan(method, p) returned when the call was first made. A replay gets the plan of the call that it repeats.
    """
    for name in ("operation", *set(declared) - set(inspect.signature(target).parameters)):
        if name in declared:
            raise TypeError(f"cache() takes no {name!r}")

    def declare(c):
        if not inspect.isclass(c):
            raise TypeError(f"cache() declares a class, and {c!r} is none: functions have attnfuzz.target above them, and "
                            "other arguments are named, as in cache(memory='own')")
        return Cache(c, memory, declared)

    return declare(cls) if cls is not None else declare


class Life:
    """The instance of a class during one sequence of calls, in the worker."""

    def __init__(self, of):
        self.of, self.told, self.instance, self.why, self.plans = of, None, None, "", {}

    def tell(self, told):
        """Takes what properties/sequences/run/tell.h describes. Raises what the class raises."""
        self.told = told
        if told["begins"]:
            self.instance, self.plans, self.why = None, {}, ""
            try:
                self.instance = self.of.cls(Setup.of(told["setup"], self.of.own))
            except Unsupported as e:
                self.why = str(e) or "unsupported"
        if self.instance is None:
            raise Unsupported(self.why) if self.why else RuntimeError("the instance of this sequence is gone")
        if verb := told.get("do"):
            given = [*told["sequences"], told["count"]] if verb == "truncate" else told["sequences"]
            if getattr(self.instance, verb)(*given) is not None:
                raise TypeError(f"{verb} returned something: it changes the sequences of the class, and returns nothing")

    def more(self, method, problem):
        """The arguments that a method has beside those of its operation."""
        more = {}
        if "sequences" in method.extras:
            more["sequences"] = tuple(self.told["sequences"])
        if "plan" in method.extras:
            key = (self.told["planned"], self.told["call"])
            if key not in self.plans:
                self.plans[key] = self.instance.plan(method.method, problem)
            more["plan"] = self.plans[key]
        return more
