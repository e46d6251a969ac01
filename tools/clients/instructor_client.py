"""Instructor: answers as Pydantic models.

Not tried: `create_iterable`, whose schema allows `{}` in place of the list, which a small model prefers.
"""

from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, ConfigDict, Field

from checks import FORCED, QUESTION, check, main, raises

# Whole schemas are in the prompts of MD_JSON and JSON, where nothing but the prompt asks for them: that takes a larger model.
MODES = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA]


class Place(BaseModel):
    # Otherwise a small model adds fields without end.
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=20)
    size: Literal["small", "large"]
    rivers: list[Literal["Tiber", "Arno"]] = Field(min_length=1, max_length=2)


def client(server, mode=instructor.Mode.TOOLS):
    return instructor.from_openai(OpenAI(base_url=server.openai, api_key="none", max_retries=0, timeout=60), mode=mode)


def ask(server, **fields):
    return {"model": server.model, "messages": [{"role": "user", "content": QUESTION}], "max_retries": 0, **FORCED, **fields}


@check
def models(server):
    for mode in MODES:
        got, completion = client(server, mode).chat.completions.create_with_completion(response_model=Place, **ask(server))
        assert isinstance(got, Place) and completion.usage.completion_tokens > 3, mode


@check
def partial(server):
    for mode in [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA]:
        parts = list(client(server, mode).chat.completions.create_partial(response_model=Place, **ask(server)))
        assert len(parts) > 1 and parts[-1].size in ["small", "large"] and parts[-1].rivers, mode


@check
def mistakes_are_sent_back(server):
    """A reader's own check fails twice: the client sends the error as the tool's result."""
    seen = []

    class Picky(BaseModel):
        size: Literal["small", "large"]

        def model_post_init(self, _):
            seen.append(self.size)
            if len(seen) < 3:
                raise ValueError("try again")

    got = client(server).chat.completions.create(response_model=Picky, **ask(server, max_retries=3, max_tokens=200))
    assert isinstance(got, Picky) and len(seen) == 3


@check
def errors(server):
    error = raises(Exception, lambda: client(server).chat.completions.create(response_model=Place, **ask(server, model="gpt-none")))
    assert "there is no model `gpt-none`" in str(error)


if __name__ == "__main__":
    main()
