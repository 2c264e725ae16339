package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// normalizeArgs rewrites a command line so that help and --version, which people try first, work.
func normalizeArgs(args []string) []string {
	if len(args) == 0 {
		return args
	}
	switch args[0] {
	case "help":
		return append(args[1:len(args):len(args)], "--help")
	case "--version", "-version", "-v", "-V":
		return []string{"version"}
	}
	return args
}

// foreignFlags maps flags of other frameworks to those of train.
var foreignFlags = map[string]string{
	"learning-rate": "lr", "learning_rate": "lr", "batch-size": "batch", "batch_size": "batch",
	"epochs": "steps", "max-steps": "steps",
	"num-steps": "steps", "iters": "steps", "seq-len": "seq", "seq-length": "seq", "seq_len": "seq",
	"context":    "seq",
	"block-size": "seq", "hidden-size": "dim", "hidden": "dim", "width": "dim", "num-layers": "layers",
	"depth":     "layers",
	"num-heads": "heads", "weight-decay": "decay", "weight_decay": "decay", "grad-clip": "clip",
	"max-grad-norm": "clip",
	"output-dir":    "save", "output": "save", "out": "save", "resume": "checkpoint", "dataset": "data",
	"nproc-per-node": "devices",
	"gpus":           "devices", "max-new-tokens": "tokens", "max-tokens": "tokens", "temp": "temperature",
}

// hint returns this command's name for an unknown flag of another framework, if it has one.
func hint(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "unknown flag --")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ",")
	word := foreignFlags[strings.TrimSpace(name)]
	p, ok := errors.AsType[*kong.ParseError](err)
	if !ok || word == "" || p.Context == nil {
		return ""
	}
	for _, f := range p.Context.Flags() {
		if f.Name == word {
			return fmt.Sprintf(", here it is --%s", word)
		}
	}
	return ""
}

// repeated returns an error if a flag that has one value is given twice.
func repeated(ctx *kong.Context) error {
	seen := map[*kong.Flag]bool{}
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Flag.IsCumulative() || p.Flag.IsBool() {
			continue
		}
		if seen[p.Flag] {
			return fmt.Errorf("--%s: it is given twice: want one", p.Flag.Name)
		}
		seen[p.Flag] = true
	}
	return nil
}
