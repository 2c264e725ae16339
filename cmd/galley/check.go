package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/internal/check/runs"
	"github.com/galley-ml/galley/internal/check/sharding"
)

// checkCmd groups the checks.
type checkCmd struct {
	Ops        checkOpsCmd        `cmd:"" help:"Every op of DIR/ops.json: results, gradients, Hessian products, eager and traced, in f64 and f32."`
	Model      checkModelCmd      `cmd:"" help:"A Hugging Face model with recorded logits, gradients, losses and continuation."`
	Strategies checkStrategiesCmd `cmd:"" help:"A recorded training run, split over devices in every way: the same losses."`
	Tokenizer  checkTokenizerCmd  `cmd:"" help:"A tokenizer.json with recorded ids, offsets and decoded texts."`
	Burgers    checkBurgersCmd    `cmd:"" help:"A physics-informed network with second derivatives in its loss."`
	Spmd       checkSpmdCmd       `cmd:"" help:"How ops are sharded, against recorded facts about Paddle's rules."`
	Shardy     checkShardyCmd     `cmd:"" help:"Sharding inference against a file of facts from Shardy's tests: rules, propagation, reshards."`
	Devices    checkDevicesCmd    `cmd:"" help:"A training that several devices of an accelerator run as one program."`
	Runs       checkRunsCmd       `cmd:"" help:"Predicted step times and memory against published training runs."`
	Plans      checkPlansCmd      `cmd:"" help:"Plans of galley plan against dry runs of galley train: all run, and take what they say."`
	Programs   checkProgramsCmd   `cmd:"" help:"Random programs on meshes: op by op, compiled and on one device, the same numbers."`
	Planner    checkPlannerCmd    `cmd:"" help:"Predicted step times and memory of strategies against this machine's."`
	Auto       checkAutoCmd       `cmd:"" help:"Plans of ten programs against every candidate of their space, and against data parallelism."`
}

// place holds the flags that all checks have.
type place struct {
	Dir     string `arg:"" help:"Directory with the recorded results." type:"existingdir"`
	Threads int    `help:"Threads; 0 means all cores."`
	Verbose bool   `short:"v" help:"Print the cases that pass, too."`
}

func (p place) validate() error { return natural(map[string]int{"threads": p.Threads}) }

func (p place) device() *galley.Device { return galley.CPU(galley.Config{Threads: p.Threads}) }

// counted is a report: how many cases passed, and how many failed.
type counted interface {
	Passed() int
	Failed() int
}

// verdict returns errFailed if a case of the report failed, or none passed.
func verdict(r counted, err error) error {
	if err != nil {
		return err
	}
	if r.Failed() > 0 || r.Passed() == 0 {
		return errFailed
	}
	return nil
}

type checkOpsCmd struct {
	place
	backendFlags
}

// Help returns the text that galley check ops --help adds.
func (checkOpsCmd) Help() string {
	return `DIR holds ops.json, a list of cases, and ops.safetensors, their tensors. The relative error of the
norm may be 1e-9 in f64 and 2e-5 in f32. With --backend xla every case is compiled, and in bf16 it may be off
by 2e-2 from f64. The last line counts: N passed, M failed. The exit code is 1 if any failed.

Examples:
  galley check ops fixtures
  galley check ops fixtures --backend xla`
}

func (c *checkOpsCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	d := c.device()
	defer d.Close()
	b, err := c.open()
	if err != nil {
		return err
	}
	err = verdict(check.Ops(os.Stdout, c.Dir, check.OpsConfig{Device: d, Backend: b, Verbose: c.Verbose}))
	return closed(b, err)
}

type checkBurgersCmd struct {
	place
}

// Help returns the text that galley check burgers --help adds.
func (checkBurgersCmd) Help() string {
	return `DIR holds burgers.json and burgers.safetensors: second derivatives, gradients through them and 50
losses, which are compared in f64 to a relative 1e-8. Derivatives are taken both ways, by gradients of
gradients and by Taylor series, eagerly and traced. The exit code is 1 if any differs.

Example:
  galley check burgers fixtures`
}

func (c *checkBurgersCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	d := c.device()
	defer d.Close()
	return verdict(check.Burgers(os.Stdout, c.Dir, d))
}

type checkTokenizerCmd struct {
	Dir     string `arg:"" help:"Directory with tokenizer.json and cases.json." type:"existingdir"`
	Verbose bool   `short:"v" help:"Print the cases that pass, too."`
}

// Help returns the text that galley check tokenizer --help adds.
func (checkTokenizerCmd) Help() string {
	return `DIR holds a Hugging Face tokenizer.json and cases.json: a list of texts with their ids, with offsets
in characters and the decoded text where they were recorded. All must be equal. The exit code is 1 if any
differs.

Example:
  galley check tokenizer tokenizer/testdata/unigram`
}

func (c *checkTokenizerCmd) Run() error {
	return verdict(check.Tokenizer(os.Stdout, c.Dir, check.TokenizerConfig{Verbose: c.Verbose}))
}

type checkModelCmd struct {
	place
	strategyFlags
	Plan string `help:"File of galley plan to train by, in place of --mesh." type:"existingfile" placeholder:"FILE"`
	backendFlags
	BF16  bool `name:"bf16" help:"Compute products in bf16, with f32 parameters; losses and norms may then be off by 2e-2."`
	Eager bool `help:"Run op by op in place of compiled."`
}

// Help returns the text that galley check model --help adds.
func (checkModelCmd) Help() string {
	return `DIR is a Hugging Face directory that also holds reference.json and reference.safetensors. First
logits, gradients, every training loss and gradient norm are compared in f32 and f64 to an absolute 2e-4; the
greedy continuation must be the same. A norm in f32 also holds if it is as near to the one in f64: the
recorded norms are f32, and not exact themselves. With --amp the limit of losses is 2e-2 and that of norms
5e-2, and the continuation is not compared. The exit code is 1 if any differs.

Examples:
  galley check model fixtures/llama
  galley check model fixtures/mixtral --eager -v
  galley check model fixtures/llama --mesh dp=2,tp=2,pp=2 --schedule zbh1 --micro 4 --zero 1
  galley check model fixtures/llama --backend xla --bf16`
}

func (c *checkModelCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	s, err := c.strategy()
	if err == nil && s != nil && c.Eager {
		err = fmt.Errorf("--eager: op by op is on one device: got %v: want none of its flags", s)
	}
	if err != nil {
		return err
	}
	d := c.device()
	defer d.Close()
	mode := galley.Static
	if c.Eager {
		mode = galley.Eager
	}
	config := check.ModelConfig{Device: d, Mode: mode, Verbose: c.Verbose, Strategy: s, Plan: c.Plan}
	if c.BF16 {
		config.DTypes = []array.DType{array.BF16}
	}
	if config.Backend, err = c.open(); err != nil {
		return err
	}
	return closed(config.Backend, verdict(check.Model(os.Stdout, c.Dir, config)))
}

type checkSpmdCmd struct {
	File    string `arg:"" help:"File with the recorded facts." type:"existingfile"`
	Verbose bool   `short:"v" help:"Print the cases that pass, too."`
}

func (c *checkSpmdCmd) Run() error {
	return verdict(sharding.Spmd(os.Stdout, c.File, sharding.SpmdConfig{Verbose: c.Verbose}))
}

type checkShardyCmd struct {
	File    string `arg:"" help:"File with the facts." type:"existingfile"`
	Verbose bool   `short:"v" help:"Print the cases that agree, too."`
}

func (c *checkShardyCmd) Run() error {
	d := sharding.Quiet
	if c.Verbose {
		d = sharding.Verbose
	}
	return verdict(sharding.Shardy(os.Stdout, c.File, d))
}

type checkRunsCmd struct {
	File    string `arg:"" help:"File with the runs." type:"existingfile"`
	Verbose bool   `short:"v" help:"Print every row."`
	Seen    string `placeholder:"FILE" help:"Write what the runs of each source and kind showed to FILE."`
}

// Help returns the text that galley check runs --help adds.
func (checkRunsCmd) Help() string {
	return `FILE is a JSON list of runs: model, cluster, strategy and what was measured. Every row that says
enough is predicted; for the others it prints why not. Constants that are fitted to whole runs never see the
source that they are reported on. tau and regret compare strategies of one model, cluster and batch with each
other.

Example:
  galley check runs published_runs.json`
}

func (c *checkRunsCmd) Run() error {
	return verdict(runs.Compare(os.Stdout, c.File, runs.Config{Verbose: c.Verbose, Seen: c.Seen}))
}
