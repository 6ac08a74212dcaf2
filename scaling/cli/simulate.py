"""`python -m scaling simulate ... > FILE.csv`: noisy points of a known curve, to try the other commands on."""

import argparse

import numpy as np

from scaling.cli.options import (
    CommandError,
    add_output,
    count,
    not_negative,
    pass_rate,
    positive,
    share,
    show,
)
from scaling.curve import FORMS
from scaling.simulate import rewards


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("simulate", help="print points of a known curve, with noise, as CSV")
    option = parser.add_argument
    option("--r0", type=pass_rate, default=0.0, metavar="X", help="reward at zero compute (default: 0)")
    option("--A", type=pass_rate, required=True, metavar="X", help="ceiling")
    option("--B", type=positive, required=True, metavar="X", help="efficiency exponent")
    option("--c-mid", type=positive, required=True, metavar="C", help="compute at half of the gain")
    option("--form", choices=FORMS, default="sigmoid")
    option("--n", type=count, default=50, metavar="N", help="points, evenly spaced (default: 50)")
    option("--to", type=positive, metavar="C", help="last compute (default: four times C_mid)")
    option(
        "--sd", type=not_negative, default=0.01, metavar="X", help="noise of one evaluation (default: 0.01)"
    )
    option("--rho", type=share, default=0.0, metavar="X", help="its autocorrelation (default: 0)")
    option("--seed", type=_seed, default=0, metavar="N")
    add_output(option, plot=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    ceiling = args.A
    if ceiling < args.r0:
        raise CommandError(f"--A {ceiling:g} is below --r0 {args.r0:g}")
    to = 4.0 * args.c_mid if args.to is None else args.to
    compute = np.linspace(to / args.n, to, args.n)
    reward = rewards(
        compute,
        r0=args.r0,
        a=ceiling,
        b=args.B,
        c_mid=args.c_mid,
        form=args.form,
        sd=args.sd,
        rho=args.rho,
        rng=np.random.default_rng(args.seed),
    )
    show({"compute": compute.tolist(), "reward": reward.tolist()}, render, args.json)


def render(payload: dict) -> str:
    """The CSV that the other commands read, every digit of it."""
    pairs = zip(payload["compute"], payload["reward"], strict=True)
    return "\n".join(["compute,reward", *(f"{c!r},{r!r}" for c, r in pairs)])


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
