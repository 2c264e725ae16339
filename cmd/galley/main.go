// Command galley trains, runs, checks and measures models.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/galley-ml/galley/internal/pipeline"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/strict"
)

// commands is the command line: one struct for each command, in a file of its own.
type commands struct {
	Train      trainCmd      `cmd:"" help:"Train a language model. Without arguments: a small one on an embedded book, then text from it."`
	Slurm      slurmCmd      `cmd:"" help:"Write a batch file for Slurm that runs a command on many hosts."`
	Kubernetes kubernetesCmd `cmd:"" help:"Write a manifest for Kubernetes that runs a command in many pods."`
	Launch     launchCmd     `cmd:"" help:"Start several processes that train together, on this machine or, elastically, on many."`
	Status     statusCmd     `cmd:"" help:"Show the hosts of an elastic job, its progress and what has happened."`
	Drain      drainCmd      `cmd:"" help:"Make a host leave an elastic job after its current step."`
	EtcdServer etcdServerCmd `cmd:"" hidden:"" help:"Serve etcd for an elastic job: launch --etcd embedded=HOST starts it."`
	Finetune   finetuneCmd   `cmd:"" help:"Train a model further on conversations or preferences: an adapter, or all weights."`
	Generate   generateCmd   `cmd:"" help:"Continue a text with a model."`
	Serve      serveCmd      `cmd:"" help:"Answer OpenAI's API over HTTP with models."`
	Eval       evalCmd       `cmd:"" help:"Print the loss and the perplexity of a model on a text."`
	Quantize   quantizeCmd   `cmd:"" help:"Write a model with weights of 8 or 4 bits."`
	Export     exportCmd     `cmd:"" help:"Write a checkpoint of a run as a Hugging Face directory."`
	Plan       planCmd       `cmd:"" help:"Find the best way to train a model on a cluster, with the reason."`
	Simulate   simulateCmd   `cmd:"" help:"Draw a step of a plan: a trace, a picture of the pipeline, memory over time."`
	Calibrate  calibrateCmd  `cmd:"" help:"Measure this machine for the planner."`
	Dump       dumpCmd       `cmd:"" help:"Print the program of a training step after a pass."`
	Trace      traceCmd      `cmd:"" help:"Train for some steps and write the timeline of every device."`
	Explain    explainCmd    `cmd:"" help:"List what the devices of a mesh exchange in a training step, and why."`
	Data       dataCmd       `cmd:"" help:"Prepare data: token shards from texts."`
	Tokenizer  tokenizerCmd  `cmd:"" help:"Make a tokenizer."`
	Bench      benchCmd      `cmd:"" help:"Measure this machine: matrix products, training steps, attention."`
	Check      checkCmd      `cmd:"" help:"Compare with results recorded by other frameworks."`
	Passes     passesCmd     `cmd:"" help:"List the rewrites of programs that a strategy can name."`
	Doctor     doctorCmd     `cmd:"" help:"Say what this machine offers, and what is missing."`
	Version    versionCmd    `cmd:"" help:"Say which version this is."`
}

// Exit codes: 1 when a check fails or Galley has a bug, 2 for errors that the user can fix.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errFailed means that a check ran and failed; it has printed its report already.
var errFailed = errors.New("check failed")

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	var cli commands
	if err := errors.Join(bindSelf(), kernel.CheckLimit(), priceLoops()); err != nil {
		return report(err)
	}
	silence()
	stop, err := profile()
	if err != nil {
		return report(err)
	}
	defer stop()
	elastic = joinElastic()
	parser, err := kong.New(&cli, kong.Name("galley"), kong.UsageOnError(), kong.Vars{
		"systems": strings.Join(export.Systems(), ", "), "schedules": strings.Join(pipeline.Names(), ", "),
	},
		kong.Description("Automatic-parallel training of large models.\n\n"+
			"  galley train                                  train a small model on a book, two minutes\n"+
			"  galley train --model DIR --data FILE          train a Hugging Face model on a text\n"+
			"  galley generate DIR --prompt 'Call me'        continue a text\n"+
			"  galley serve DIR                              OpenAI's API and a chat page on port 8000\n"+
			"  galley explain --mesh dp=2,tp=4               what devices exchange in a step, and why\n"+
			"  galley plan llama-3-8b '8x8 H100-SXM ib=400G'  the best way to train it there, and why\n"+
			"  galley check ops DIR                          ops against PyTorch's results\n"+
			"  galley bench step --threads 2 --json          a training step, timed"))
	if err != nil {
		return report(err)
	}
	ctx, err := parser.Parse(normalizeArgs(args))
	if err != nil {
		return report(reportInJob(fmt.Errorf("%w%s: see %s --help", err, hint(err), chosen(err))))
	}
	if err := repeated(ctx); err != nil {
		return report(reportInJob(err))
	}
	return report(inJob(ctx))
}

// chosen returns the command line prefix of the command in which a mistake was made.
func chosen(err error) string {
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil && p.Context.Selected() != nil {
		return p.Context.Model.Name + " " + p.Context.Selected().Path()
	}
	return "galley"
}

// report prints an error in one line and returns the exit code.
func report(err error) int {
	if err != nil {
		tell(err)
	}
	return exitCode(err)
}

// tell prints an error in one line; that of an elastic job is printed by the agent.
func tell(err error) {
	_, silent := errors.AsType[exitError](err)
	_, told := errors.AsType[*printedError](err)
	if elastic == nil && !silent && !told && !errors.Is(err, errFailed) {
		fmt.Fprintln(os.Stderr, "galley:", strict.Line(once(err.Error())))
	}
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case elastic != nil:
		elastic.End(err, mistaken(err), lost(err))
	case errors.Is(err, errFailed):
		return exitFailed
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if s, ok := errors.AsType[*stoppedError](err); ok {
		return s.code()
	}
	if _, ok := errors.AsType[*galley.BugError](err); ok {
		return exitFailed
	}
	return exitUsage
}

// once returns a text without repeated lines: several processes may report the same error, such as a lost
// process.
func once(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
