"""Texts and conversations in the tokens of a model.

A text is read and split as in `language` (corpus.documents). A conversation is a line of JSONL: `messages`, each with
`role` and `content`, or a `prompt` and its `response`. Only what the assistant says is predicted. Tokens are kept in
the cache of this machine, by the digests of text and tokenizer.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.workloads import cache
from raysweep.workloads.language import corpus, files
from raysweep.workloads.language.texts import SPLITS, BadText, Documents, Text, epoch_order, split

VERSION = 1  # raise it when the same text and tokenizer give other tokens
VOCABULARY = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "chat_template.jinja")
"""The files of a checkpoint that decide tokens."""
CHAT = "chat:"
TOKENIZER, TULU = TEMPLATES = "tokenizer", "tulu"
FORMS = corpus.DOCUMENTS
_SPOKEN = '"messages" of {"role", "content"} that end with the assistant, or "prompt" and "response"'
_NOTHING = -1  # token 0, read and not predicted: what fills a batch after the end of a conversation
BEGIN = -(2**30)  # added to a token that begins another conversation in a row. It is read and not predicted.


@dataclass(frozen=True)
class Chats:
    """Conversations, split. digest: identifies them, their split and their tokens.

    splits: for each split int32 tokens; a negative one, -1 - t, stands for a t that is not predicted.
    """

    digest: str
    splits: Mapping[str, Sequence[np.ndarray]]

    def batch(self, seed: int, first: int, count: int, length: int, packs: bool = False) -> np.ndarray:
        """Conversations first … first+count-1 of a seed's stream, int32 (count, longest); if `packs`, in as few rows as
        they fit into."""
        train, role = self.splits["train"], f"checkpoints/order/{self.digest}"
        places = [divmod(number, len(train)) for number in range(first, first + count)]
        chosen = [train[epoch_order(seed, f"{role}/{epoch}", len(train))[1][within]] for epoch, within in places]
        return padded(packed(chosen, length) if packs else chosen, length)


def held_out(text: Text | Chats, part: str, count: int, at_once: int, length: int) -> list[np.ndarray]:
    """Up to `count` sequences of a held-out split, at once; or conversations, those of like length together."""
    if isinstance(text, Text):
        return [text.held_out(part, count, length)]
    conversations = sorted(text.splits[part][:count], key=len)
    return [padded(conversations[at : at + at_once], length) for at in range(0, len(conversations), at_once)]


def padded(conversations: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Conversations as one array; of one longer than length + 1 tokens the last ones."""
    cut = [tokens[-(length + 1) :] for tokens in conversations]
    batch = np.full((len(cut), max(map(len, cut))), _NOTHING, np.int32)
    for row, tokens in zip(batch, cut, strict=True):
        row[: len(tokens)] = tokens
    return batch


def packed(conversations: Sequence[np.ndarray], length: int) -> list[np.ndarray]:
    """Conversations one after the other in rows of up to length + 1 tokens, each in the first row with room for it."""
    rows: list[list[np.ndarray]] = []
    for tokens in sorted((each[-(length + 1) :] for each in conversations), key=len, reverse=True):
        row = next((row for row in rows if sum(map(len, row)) + len(tokens) <= length + 1), None)
        if row is None:
            rows.append([tokens])
        else:
            first = int(tokens[0])
            row += [np.asarray([BEGIN + min(first, -1 - first)], np.int32), tokens[1:]]
    return [np.concatenate(row) for row in rows]


@functools.lru_cache(maxsize=4)
def tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint. BadText if there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever its files hold
        raise BadText(f"{folder} has no tokenizer that can be read ({type(error).__name__}: {error})") from None


def documents(name: str) -> Documents:
    """The split documents of a text, or conversations as JSON. BadText says what is wrong with it."""
    if name.partition(":")[0] not in (*corpus.INSTALLED, "file", "chat"):
        raise BadText(f"expected {FORMS}, or {CHAT}PATH (.jsonl) to fine-tune on, got {name!r}")
    return _documents(name, corpus.signature(name))


@functools.lru_cache(maxsize=4)
def _documents(name: str, signature: object) -> Documents:
    if not name.startswith(CHAT):
        return corpus.documents(name)
    spoken = [_spoken(where, entry) for where, entry in files.entries(name.removeprefix(CHAT))]
    return split([json.dumps(messages, sort_keys=True).encode() for messages in spoken], name)


def _spoken(where: str, entry: Mapping[str, Any]) -> list[dict[str, str]]:
    messages = entry.get("messages")
    if messages is None and {"prompt", "response"} <= entry.keys():
        messages = [{"content": entry["prompt"]}, {"role": "assistant", "content": entry["response"]}]
    try:
        spoken = [{name: each[name] for name in ("role", "content") if name in each} for each in messages or ()]
        good = all(isinstance(text, str) for each in spoken for text in (each["content"], *each.values()))
    except (TypeError, KeyError):
        spoken, good = [], False
    if not (good and spoken and spoken[-1].get("role") == "assistant" and spoken[-1]["content"]):
        raise BadText(f"{where}: expected {_SPOKEN}")
    return spoken


def segments(messages: Sequence[Mapping[str, str]], template: str, words: Any) -> list[tuple[str, bool]]:
    """The parts of a conversation as text, and whether each is predicted. A prompt without a template is followed by
    its response and the token for the end.

    BadText if the tokenizer has no chat template, or one in which a turn changes those before it.
    """
    end = words.eos_token or ""
    parts = list[tuple[str, bool]]()
    if template == TULU:
        for each in messages:
            role, given = each.get("role", "user"), each.get("role") != "assistant"
            parts += [(f"<|{role}|>\n", False), (f"{each['content']}{'' if given else end}\n", not given)]
        return parts
    if "role" not in messages[0]:
        return [(messages[0]["content"], False), (messages[-1]["content"] + end, True)]
    if not words.chat_template:
        raise BadText(f"the tokenizer of {words.name_or_path} has no chat template; template: {TULU} brings one")
    before = ""
    for i, each in enumerate(messages):
        if each["role"] != "assistant":
            continue
        asked = words.apply_chat_template(list(messages[:i]), tokenize=False, add_generation_prompt=True)
        whole = words.apply_chat_template(list(messages[: i + 1]), tokenize=False)
        if not (asked.startswith(before) and whole.startswith(asked)):
            raise BadText(f"the chat template of {words.name_or_path} changes what was said before; template: {TULU}")
        parts += [(asked[len(before) :], False), (whole[len(asked) :], True)]
        before = whole
    return parts


def steps(row: Mapping[str, Any], size: float) -> int:
    """Steps of a row's fine-tuning, stated or by epochs. size: conversations, or contexts of text, to train on."""
    return int(row["finetune_steps"]) or math.ceil(float(row["epochs"]) * size / int(row["finetune_batch"]))


def size(text: Text | Chats, length: int) -> float:
    """Conversations, or contexts of text, to train on."""
    return text.train_tokens / length if isinstance(text, Text) else len(text.splits["train"])


def guessed_size(name: str, length: int) -> float:
    """`size` of a text that no tokenizer has read: exact for conversations, of text as if a token were 4 bytes."""
    train = documents(name).splits["train"]
    return len(train) if name.startswith(CHAT) else sum(map(len, train)) / 4 / length


def load(name: str, template: str, folder: Path) -> Text | Chats:
    """A text or conversations in the tokens of a checkpoint. BadText says what is wrong with it."""
    return _load(name, corpus.signature(name), template, folder)


@functools.lru_cache(maxsize=8)
def _load(name: str, signature: object, template: str, folder: Path) -> Text | Chats:
    texts, words, chat = documents(name), tokenizer(folder), name.startswith(CHAT)
    decide = [path.read_bytes() for name in VOCABULARY if (path := folder / name).is_file()]
    mark = hashlib.sha256(repr((VERSION, texts.digest, chat and template, decide)).encode()).hexdigest()[:32]
    made = partial(_chats, template=template) if chat else _flat
    kept = {
        part: cache.array(f"checkpoints/{mark}-{part}", partial(made, texts.splits[part], words)) for part in SPLITS
    }
    if not chat:
        return Text(mark, kept)
    # where all conversations but the last one end
    ends = {part: np.cumsum(kept[part][1 : kept[part][0]].astype(np.int64)) for part in SPLITS}
    return Chats(mark, {part: np.split(kept[part][kept[part][0] + 1 :], ends[part]) for part in SPLITS})


def _flat(texts: Sequence[bytes], words: Any) -> np.ndarray:
    """Documents one after the other, each as the tokenizer begins one and with a token for its end."""
    end = [words.eos_token_id] if words.eos_token_id is not None else []
    read = words([document.decode("utf-8", "replace") for document in texts], verbose=False)["input_ids"]
    return np.concatenate([np.asarray(tokens + end * (tokens[-1:] != end), np.int32) for tokens in read])


def _chats(texts: Sequence[bytes], words: Any, template: str) -> np.ndarray:
    """Conversations one after the other, after their number and the length of each."""
    read = [_conversation(json.loads(each), template, words) for each in texts]
    return np.concatenate([np.asarray([len(read), *map(len, read)], np.int32), *read])


def _conversation(messages: Sequence[Mapping[str, str]], template: str, words: Any) -> np.ndarray:
    first, tokens = list(words("")["input_ids"][:1]), list[int]()
    for number, (text, predicted) in enumerate(segments(messages, template, words)):
        piece = list(words(text, add_special_tokens=False, verbose=False)["input_ids"])
        piece = [*first, *piece] if number == 0 and piece[:1] != first else piece
        tokens += piece if predicted else [-1 - token for token in piece]
    return np.asarray(tokens, np.int32)


def complaint(name: str, template: str, folder: Path | None, length: int) -> str | None:
    """What is wrong with a text or conversations for contexts of `length` tokens, of a model if it is here; or None."""
    try:
        documents(name)
        if folder is None or corpus.long_enough(name):
            return None
        text = load(name, template, folder)
    except BadText as error:
        return str(error)
    if isinstance(text, Text):
        return corpus.too_short(name, text, length)
    long = [_overlong(tokens, length) for part in text.splits.values() for tokens in part]
    if any(long):
        words, lines = tokenizer(folder), files.entries(name.removeprefix(CHAT))
        first = next(at for at, each in lines if _overlong(_conversation(_spoken(at, each), template, words), length))
        count = f"{sum(long):,} of {len(long):,} responses are longer than the context of {length:,} tokens"
        return f"{first}: {count}, this one first; raise context, or drop such lines"
    return None


def _overlong(tokens: np.ndarray, length: int) -> bool:
    """Whether a response is longer than a context, so that nothing of what it answers is read."""
    return len(tokens) > length and bool((tokens[-length - 1 :] >= 0).all())
