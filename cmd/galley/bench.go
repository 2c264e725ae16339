package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/bench"
)

// benchCmd groups the benchmarks.
type benchCmd struct {
	Gemm      benchGemmCmd      `cmd:"" help:"Time a product of two square matrices."`
	Step      benchStepCmd      `cmd:"" help:"Time a whole training step of a GPT-2."`
	Hybrid    benchHybridCmd    `cmd:"" help:"Time a training step on many in-process devices beside the same on one."`
	Attention benchAttentionCmd `cmd:"" help:"Time attention with its gradient, and show its memory, by length."`
	Serve     benchServeCmd     `cmd:"" help:"Time a server of OpenAI's API: tokens a second, first tokens, gaps."`
	Engine    benchEngineCmd    `cmd:"" help:"Time prompts that were seen before, steps while a long prompt arrives, and what HTTP costs."`
	Decode    benchDecodeCmd    `cmd:"" help:"Time generation by formats of weights, beside what reading memory allows."`
	Comm      benchCommCmd      `cmd:"" help:"Time all-reduces between devices and between processes, beside MPI_Allreduce."`
	Burgers   benchBurgersCmd   `cmd:"" help:"Time a network with derivatives in its loss, by series, by gradients and by PyTorch."`
	Branches  benchBranchesCmd  `cmd:"" help:"Time a step of one sample with attention and the MLP on two devices beside one device."`
	Fuse      benchFuseCmd      `cmd:"" help:"Time functions in primitive ops, op by op and joined to loops."`
}

// output chooses how results are printed.
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

// Help returns the text that galley bench gemm --help adds.
func (benchGemmCmd) Help() string {
	return `Prints the best and the median time in milliseconds and GFLOP/s: 2n³ operations in a product.

Examples:
  galley bench gemm --n 2048 --threads 2
  galley bench gemm --n 1024 --dtype bf16 --json`
}

func (c *benchGemmCmd) Run() error {
	err := positive(map[string]int{"n": c.N, "runs": c.Runs})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads})
	}
	if err != nil {
		return err
	}
	dtype, err := array.ParseDType(c.DType)
	if err != nil {
		return err
	}
	if err := fits(fmt.Sprintf("--n=%d", c.N), 3*float64(c.N)*float64(c.N)*float64(dtype.Size())); err != nil {
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
	backendFlags
	Model   string `help:"Model family: gpt2, or llama with RMSNorm, SwiGLU, RoPE and an untied head." default:"gpt2" enum:"gpt2,llama"`
	Layers  int    `default:"4" help:"Blocks."`
	Dim     int    `default:"256" help:"Width."`
	Heads   int    `default:"4" help:"Attention heads."`
	Seq     int    `default:"256" help:"Tokens in a sequence."`
	Batch   int    `default:"8" help:"Sequences in a step."`
	Vocab   int    `default:"8192" help:"Size of the vocabulary."`
	FFN     int    `name:"ffn" help:"Width of llama's feed-forward layers; 0 means 8/3 of --dim."`
	KVHeads int    `name:"kv-heads" help:"Heads of llama's keys and values; 0 means --heads."`
	BF16    bool   `name:"bf16" help:"Compute products in bf16, with f32 parameters and optimizer."`
	Again   string `name:"recompute" help:"Activations that the backward pass on an accelerator recomputes: none, selective or full." default:"none" enum:"none,selective,full"`
	Micro   int    `help:"Micro-batches of a step on an accelerator: gradients are summed over as many parts of the batch." default:"1"`
	Threads int    `help:"Threads; 0 means all cores."`
	Runs    int    `help:"Measured steps." default:"9"`
	Eager   bool   `help:"Run op by op in place of compiled."`
	Profile bool   `help:"Print the time of each op, too."`
	fuseFlags
	Primitive bool `help:"Compute the loss by primitive ops alone: norms, activations, attention and the loss are replaced by what defines them."`
}

// fuseFlags choose whether ops are fused into loops.
type fuseFlags struct {
	Fuse string `help:"Whether ops are joined to loops: on, or off." default:"on" enum:"on,off"`
}

// set applies the choice to all programs that this process compiles.
func (f fuseFlags) set() error { return os.Setenv("GALLEY_FUSE", f.Fuse) }

// Help returns the text that galley bench step --help adds.
func (benchStepCmd) Help() string {
	return `Prints the best and the median time of a step in milliseconds, tokens per second and the most bytes
held at once.

Examples:
  galley bench step --threads 2 --json
  galley bench step --layers 4 --dim 256 --heads 4 --seq 256 --batch 8 --vocab 8192 --profile
  galley bench step --backend xla --model llama --bf16 --vocab 32000 --layers 16 --dim 2048 --heads 16 --ffn 5632 --batch 8 --seq 2048
  … --batch 32 --micro 4                                                        the same in four parts of eight sequences
  galley bench step --primitive --fuse=off                                      in primitive ops, none of them joined to loops`
}

func (c *benchStepCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "seq": c.Seq,
		"batch": c.Batch, "vocab": c.Vocab, "runs": c.Runs, "micro": c.Micro})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "ffn": c.FFN, "kv-heads": c.KVHeads})
	}
	if err == nil && c.Dim%c.Heads != 0 {
		err = fmt.Errorf("--dim=%d: want a multiple of --heads=%d", c.Dim, c.Heads)
	}
	if err == nil && c.Backend != "cpu" && c.Fuse == "off" {
		err = fmt.Errorf("--fuse=off: it is for --backend=cpu: accelerators' compilers fuse as they do")
	}
	if err == nil && c.Backend == "cpu" && c.Micro > 1 {
		err = fmt.Errorf("--micro=%d: it is for --backend=xla: galley bench hybrid has it for this process",
			c.Micro)
	}
	if err == nil && c.Backend == "cpu" {
		err = fits(fmt.Sprintf("--layers=%d --dim=%d --vocab=%d", c.Layers, c.Dim, c.Vocab), c.bytes())
	}
	if err != nil {
		return err
	}
	config := bench.StepConfig{
		Model: c.Model, Layers: c.Layers, Dim: c.Dim, Heads: c.Heads, Seq: c.Seq, Batch: c.Batch, Vocab: c.Vocab,
		FFN: c.FFN, KVHeads: c.KVHeads,
		Threads: c.Threads, Runs: c.Runs, Profile: c.Profile, Primitive: c.Primitive, Recompute: c.Again,
		Micro: c.Micro, Tell: progressPrinter(),
	}
	if c.Eager {
		config.Mode = galley.Eager
	}
	if c.BF16 {
		config.Compute = array.BF16
	}
	if err := c.set(); err != nil {
		return err
	}
	if config.Backend, err = c.open(); err != nil {
		return err
	}
	r, err := bench.Step(config)
	if err = closed(config.Backend, err); err != nil {
		return err
	}
	return c.print(r)
}

// bytes returns a lower bound of a step's memory: parameters, gradients and two moments, and the logits.
func (c *benchStepCmd) bytes() float64 {
	dim := float64(c.Dim)
	params := float64(c.Vocab)*dim + float64(c.Layers)*12*dim*dim
	return 16*params + 4*float64(c.Batch)*float64(c.Seq)*float64(c.Vocab)
}

type benchAttentionCmd struct {
	output
	Seq     []int `help:"Sequence lengths." default:"1024,4096,16384"`
	Heads   int   `default:"4" help:"Attention heads."`
	HeadDim int   `default:"64" help:"Width of a head."`
	Threads int   `help:"Threads; 0 means all cores."`
	Runs    int   `help:"Measured runs of each." default:"3"`
}

// Help returns the text that galley bench attention --help adds.
func (benchAttentionCmd) Help() string {
	return `Prints milliseconds and bytes for each length, forward and backward together. Memory grows with the
length, not its square.

Examples:
  galley bench attention --seq 1024,4096,16384
  galley bench attention --seq 2048 --heads 16 --head-dim 128 --json`
}

func (c *benchAttentionCmd) Run() error {
	err := positive(map[string]int{"heads": c.Heads, "head-dim": c.HeadDim, "runs": c.Runs})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads})
	}
	if err == nil && len(c.Seq) == 0 {
		err = errors.New("--seq: want at least one length")
	}
	if err != nil {
		return err
	}
	for _, seq := range c.Seq {
		if err := positive(map[string]int{"seq": seq}); err != nil {
			return err
		}
		r, err := bench.Attention(bench.AttentionConfig{Seq: seq, Heads: c.Heads, HeadDim: c.HeadDim,
			Threads: c.Threads, Runs: c.Runs})
		if err != nil {
			return err
		}
		if err := c.print(r); err != nil {
			return err
		}
	}
	return nil
}
