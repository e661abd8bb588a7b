"""Four encoders after the same processor time: held-out loss over time, and what they are worth for two tasks.

    OMP_NUM_THREADS=1 python benchmarks/equal_time.py DATA WORK --minutes 12

DATA holds `books/*.md`, `imdb-unsup/unsup_reviews.txt`, `wikitext2-raw/wiki.{valid,test}.raw`, `sst2/{train,dev}.tsv`,
`trec6/*` and `wikigold/wikigold.conll.txt` as for real_text.py. The encoders are as wide and as deep as each other and
learn from the same text with the same vocabulary; what they have in common stands in equal_time.yaml.

Time is *processor time* of this process on one thread, of training steps alone: machines are shared, and what another
program takes does not count that way (it still costs caches and clock). Steps = budget / seconds a step, from a short
run, so that warm-up and decay fit the budget. Each encoder gets the whole budget once for each of two rates, and the
better one by held-out loss counts (shorter trials end on the plateau of token frequencies, where they tell nothing).
The rate of each fine-tuning is the best of three by its dev score; the same encoder from fresh weights is fine-tuned
beside. A part that is done is not done again: start the same command after an interruption.
Results: WORK/result.json, and a table on stdout.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock import Clock, Row, held_out_lines, part, timed_stage
from real_text import books, prepare, reviews

from bertctl import memory

RECIPE = Path(__file__).with_suffix(".yaml")
ELECTRA = "pretrain.objective={name: replaced_token, generator_width: 0.5}"
ENCODERS: dict[str, tuple[str, ...]] = {
    "BERT": ("pretrain.encoder.name=bert",),
    "ModernBERT": (
        "pretrain.encoder.name=modernbert",
        "pretrain.encoder.intermediate_size=341",  # gated: as many parameters as 512 without a gate
        "pretrain.encoder.attention_window_tokens=32",
    ),
    "ALBERT": ("pretrain.encoder.name=albert", "pretrain.encoder.embedding_size=64"),
    "ELECTRA": (
        "pretrain.encoder.name=electra",
        "pretrain.encoder.size=small",
        "pretrain.encoder.embedding_size=64",
        ELECTRA,
        "pretrain.masking.mask_share=0.85",
        "pretrain.masking.random_share=0.0",
    ),
}
RATES = (5e-4, 2e-3)
FINETUNING_RATES = (2e-4, 5e-4, 1e-3)
WARM_UP, TIMED = 8, 48  # steps of the timing run
POINTS = 6  # of the curve
ARTICLES = 12  # of WikiText-2 for a point of the curve; its end is scored on all
KEPT = ("mlm_loss", "mlm_accuracy", "replaced_token_loss", "replaced_token_accuracy")


@dataclass(frozen=True)
class Comparison:
    """The folder of all parts, and how long they may take."""

    work: Path
    seconds: float
    seeds: int

    def recipe(self, *overrides: str) -> Any:
        from bertctl.cli.recipe import Recipe
        from bertctl.recipe.load import load_recipe

        return load_recipe(RECIPE, Recipe, overrides)

    def train(self, name: str, folder: Path, *, steps: int, rate: float, clock: Clock, every: int = 0) -> Row:
        """One run of the stage, from the start, in `folder`, evaluated `every` so many steps."""
        keys = (f"pretrain.pairs={self.work / 'pairs'}", f"pretrain.tokens={self.work / 'tokens'}")
        keys += (f"pretrain.training.steps={steps}", f"pretrain.training.optimizer.lr={rate}")
        keys += (f"pretrain.training.evaluate_every_steps={every or steps}",)
        recipe = self.recipe(*ENCODERS[name], *keys)
        return timed_stage(recipe.pretrain, out=folder, seed=recipe.seed, clock=clock)

    def speed(self, name: str, folder: Path) -> Row:
        """Seconds a step."""
        clock = Clock()
        told = self.train(name, folder, steps=WARM_UP + TIMED, rate=RATES[0], clock=clock)
        seconds = (clock.times[-1] - clock.times[WARM_UP - 1]) / TIMED
        return {"seconds_a_step": seconds} | {k: v for k, v in told.items() if k.startswith("parameters")}

    def pretrain(self, name: str, folder: Path, rate: float, seconds_a_step: float) -> Row:
        """A whole budget at one rate, with its curve on both texts; `score` is the held-out loss, terms weighted."""
        steps = max(POINTS, round(self.seconds / seconds_a_step))
        every = steps // POINTS
        at = (*range(every, steps - every // 2, every), steps)
        clock = Clock(None if ELECTRA in ENCODERS[name] else self.wikitext, at)
        told = self.train(name, folder, steps=steps, rate=rate, clock=clock, every=every)
        seen = held_out_lines(folder)
        points = [p | {key: seen[p["step"]][key] for key in KEPT if key in seen[p["step"]]} for p in clock.points]
        score = told["mlm_loss"] + 50 * told.get("replaced_token_loss", 0.0)
        return told | {"rate": rate, "seconds": clock.seconds, "score": score, "points": points}

    def wikitext(self, objective: Any, runtime: Any, last: bool) -> Row:
        """Loss on the first articles of WikiText-2 test, and at the end on all of them with its interval, by the
        evaluate stage's own scorer."""
        from bertctl.evaluate.masked_lm import score_text
        from bertctl.text.tokenizer import Tokenizer

        tokenizer, found = Tokenizer.load(self.work / "tokens"), {}
        for name, articles in {"wikitext": ARTICLES, **({"wikitext_all": None} if last else {})}.items():
            keys = {"path": self.work / "wikitext2-test.txt", "test_examples": articles or "null"}
            recipe = self.recipe(*(f"evaluate.0.data.{key}={value}" for key, value in keys.items()))
            length = recipe.evaluate[0].max_length
            metrics = score_text(recipe.evaluate[0], objective, tokenizer, length, recipe.seed, runtime)[1]
            summary = metrics["loss"].summary()
            found[name] = {key: summary[key] for key in ("value", "low", "high")}
        return found

    def finetune(self, number: int, model: Path, folder: Path) -> Row:
        """Search over the rate by dev, then so many seeds; test is scored by these alone."""
        from bertctl.finetune.run import run

        shutil.rmtree(folder, ignore_errors=True)
        task = self.recipe().finetune[number]
        rates = ", ".join(map(str, FINETUNING_RATES))
        search = f"{{method: grid, over: [{{key: training.optimizer.lr, values: [{rates}]}}]}}"
        keys = {"model": model, "seeds": self.seeds, "search": search, "data.path": self.work / task.data.path}
        recipe = self.recipe(*(f"finetune.{number}.{key}={value}" for key, value in keys.items()))
        told = run(recipe.finetune[number], out=folder, seed=recipe.seed)
        shutil.rmtree(folder)
        kept = ("metric", "pretrained", "from_scratch", "bag_of_words", "majority_baseline", "search")
        return {key: told[key] for key in kept if key in told}

    def run(self, name: str) -> Row:
        """All parts of one encoder."""
        here = self.work / name
        speed = part(here / "speed.json", "timing", lambda: self.speed(name, here / "timing"))
        pace = speed["seconds_a_step"]
        runs = [
            part(
                here / f"pretrain-{rate}.json",
                f"pretraining at rate {rate}, {pace:.4f} s a step",
                lambda rate=rate: self.pretrain(name, here / f"run-{rate}", rate, pace),
            )
            for rate in RATES
        ]
        best = min(runs, key=lambda run: run["score"])
        found = {"speed": speed, "pretrain": best, "runs": runs}
        model = here / f"run-{best['rate']}" / "model"
        for number, task in enumerate(self.recipe().finetune):
            found[task.name] = part(
                here / f"{task.name}.json",
                f"fine-tuning for {task.name}",
                lambda number=number: self.finetune(number, model, here / "task"),
            )
        return found


def text_data(load: Callable[..., Any], source: Path, work: Path) -> Row:
    """Corpus (books and reviews; no Wikipedia), labelled sets, vocabulary, examples: as the recipe of `load` says."""
    from bertctl.build_pairs.run import run as build_pairs
    from bertctl.tokenize.run import run as tokenize

    prepare(source, work)
    texts = [*books(source / "books"), *reviews(source / "imdb-unsup" / "unsup_reviews.txt")]
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    (work / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")
    recipe = load(f"tokenize.corpus.files=[{work / 'corpus.jsonl'}]", f"build_pairs.tokens={work / 'tokens'}")
    for folder in ("tokens", "pairs"):
        shutil.rmtree(work / folder, ignore_errors=True)
    told = tokenize(recipe.tokenize, out=work / "tokens", seed=recipe.seed)
    return told | build_pairs(recipe.build_pairs, out=work / "pairs", seed=recipe.seed)


def table(result: dict[str, Row]) -> str:
    """One line an encoder, then the curves."""
    lines = ["| encoder | parameters | rate | steps | processor s | held-out | WikiText-2 test | sst2 | wikigold |"]
    lines.append("|---" * 9 + "|")
    for name, found in result.items():
        run, last = found["pretrain"], found["pretrain"]["points"][-1]
        all_of_it = last.get("wikitext_all")
        text = "{value:.3f} ({low:.3f} to {high:.3f})".format(**all_of_it) if all_of_it else ""
        cells = [name, f"{run['parameters']:,}", f"{run['rate']:g}", str(run["steps"]), f"{run['seconds']:.0f}"]
        cells += [f"{last['mlm_loss']:.3f}" if all_of_it else f"{last['replaced_token_accuracy']:.3f} told", text]
        lines.append(f"| {' | '.join([*cells, *(scores(found[task]) for task in ('sst2', 'wikigold'))])} |")
    for name, found in result.items():
        for run in found["runs"]:
            curve = (
                f"{p['seconds']:.0f} s {p.get('replaced_token_loss', p['mlm_loss']):.3f}"
                + (f" / {p['wikitext']['value']:.3f}" if "wikitext" in p else "")
                for p in run["points"]
            )
            lines.append(f"\n{name}, rate {run['rate']:g}: {', '.join(curve)}")
    return "\n".join(lines)


def scores(found: Row) -> str:
    """Mean over the seeds, each of them, the interval of the run that dev chose, the rate; the mean from fresh ones."""
    told = found["pretrained"]
    each = ", ".join(f"{run['value']:.3f}" for run in told["seeds"])
    rate = found["search"]["values"]["training.optimizer.lr"]
    interval = f"{told['low']:.3f} to {told['high']:.3f}"
    return f"{told['mean']:.3f} ({each}; {interval}; rate {rate:g}); fresh {found['from_scratch']['mean']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with the data sets")
    parser.add_argument("work", type=Path, help="where all parts go")
    parser.add_argument(
        "--minutes", type=float, default=12.0, help="processor time of each pretraining, two for each encoder"
    )
    parser.add_argument("--seeds", type=int, default=2, help="of each fine-tuning")
    parser.add_argument("--only", choices=ENCODERS, action="append", help="one encoder; may be given again")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    work = options.work.absolute()
    compared = Comparison(work, 60 * options.minutes, options.seeds)
    part(work / "data.json", "corpus, vocabulary, examples", lambda: text_data(compared.recipe, options.data, work))
    result = {name: compared.run(name) for name in options.only or ENCODERS}
    (work / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    memory.settle(["pretrain"])  # as the command does
    main()
