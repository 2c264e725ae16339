package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/bench"
)

// benchCmd groups the benchmarks.
type benchCmd struct {
	Gemm      benchGemmCmd      `cmd:"" help:"A product of two square matrices: galley bench gemm --n 2048 --threads 2."`
	Step      benchStepCmd      `cmd:"" help:"A whole training step: galley bench step --layers 4 --dim 256 --threads 2 --json."`
	Attention benchAttentionCmd `cmd:"" help:"Attention with its gradient, time and memory by length: galley bench attention --seq 1024,4096,16384."`
}

// output is how results are printed.
type output struct {
	JSON bool `help:"Print JSON, one object a line."`
}

func (o output) print(r fmt.Stringer) error {
	if !o.JSON {
		fmt.Println(r)
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

type benchGemmCmd struct {
	output
	N       int    `help:"Rows and columns." default:"1024"`
	Threads int    `help:"Threads; 0 means all cores."`
	Runs    int    `help:"Measured runs." default:"15"`
	DType   string `name:"dtype" help:"f32, f64, bf16 or f16." default:"f32" enum:"f32,f64,bf16,f16"`
}

func (c *benchGemmCmd) Run() error {
	if err := positive(map[string]int{"n": c.N, "runs": c.Runs}); err != nil {
		return err
	}
	dtype, err := array.ParseDType(c.DType)
	if err != nil {
		return err
	}
	r, err := bench.Gemm(bench.GemmConfig{N: c.N, Threads: c.Threads, Runs: c.Runs, DType: dtype})
	if err != nil {
		return err
	}
	return c.print(r)
}

type benchStepCmd struct {
	output
	Model   string `help:"Model family." default:"gpt2" enum:"gpt2"`
	Layers  int    `default:"4" help:"Blocks."`
	Dim     int    `default:"256" help:"Width."`
	Heads   int    `default:"4" help:"Attention heads."`
	Seq     int    `default:"256" help:"Tokens in a sequence."`
	Batch   int    `default:"8" help:"Sequences in a step."`
	Vocab   int    `default:"8192" help:"Size of the vocabulary."`
	Threads int    `help:"Threads; 0 means all cores."`
	Runs    int    `help:"Measured steps." default:"9"`
	Eager   bool   `help:"Run op by op in place of compiled."`
	Profile bool   `help:"Print the time of each op, too."`
}

func (c *benchStepCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "seq": c.Seq, "batch": c.Batch, "vocab": c.Vocab, "runs": c.Runs})
	if err != nil {
		return err
	}
	mode := galley.Static
	if c.Eager {
		mode = galley.Eager
	}
	r, err := bench.Step(bench.StepConfig{
		Layers: c.Layers, Dim: c.Dim, Heads: c.Heads, Seq: c.Seq, Batch: c.Batch, Vocab: c.Vocab,
		Threads: c.Threads, Runs: c.Runs, Mode: mode, Profile: c.Profile,
	})
	if err != nil {
		return err
	}
	return c.print(r)
}

type benchAttentionCmd struct {
	output
	Seq     []int `help:"Sequence lengths." default:"1024,4096,16384"`
	Heads   int   `default:"4" help:"Attention heads."`
	HeadDim int   `default:"64" help:"Width of a head."`
	Threads int   `help:"Threads; 0 means all cores."`
	Runs    int   `help:"Measured runs of each." default:"3"`
}

func (c *benchAttentionCmd) Run() error {
	if err := positive(map[string]int{"heads": c.Heads, "head-dim": c.HeadDim, "runs": c.Runs}); err != nil {
		return err
	}
	for _, seq := range c.Seq {
		if err := positive(map[string]int{"seq": seq}); err != nil {
			return err
		}
		r, err := bench.Attention(bench.AttentionConfig{Seq: seq, Heads: c.Heads, HeadDim: c.HeadDim, Threads: c.Threads, Runs: c.Runs})
		if err != nil {
			return err
		}
		if err := c.print(r); err != nil {
			return err
		}
	}
	return nil
}
