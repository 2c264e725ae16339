package main

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/strategy"
)

// strategyFlags choose how a step is distributed; train and check model share them.
type strategyFlags struct {
	Mesh        string `help:"Degrees of data, tensor, pipeline, context and expert parallelism: dp=2,tp=2,pp=2. Their product is the number of devices, which live in this process or, with --backend, are the accelerator's; ep folds into dp." placeholder:"AXES"`
	Branches    int    `help:"2 runs parts of a step that do not depend on each other on two devices, such as attention and the MLP of a parallel block: they are found in the program." placeholder:"N"`
	Zero        int    `help:"ZeRO: what is sharded over the data axes: 1 the optimizer's state, 2 also gradients, 3 also parameters." default:"0"`
	ZeroGroup   int    `help:"Devices of a group that --zero splits over, neighbours first; groups hold copies: shard within a host, replicate across. 0 is all."`
	Schedule    string `help:"Pipeline schedule: ${schedules}, or a file that holds one." default:"1f1b"`
	VPP         int    `name:"vpp" help:"Stages of each pipeline rank in interleaved schedules."`
	Micro       int    `help:"Micro-batches of a step: gradients are summed over as many parts of the batch; 0 means as many as pp."`
	CP          string `name:"cp" help:"How attention is computed over split sequences: ring, ulysses or gather." enum:"ring,ulysses,gather" default:"ring"`
	SP          bool   `name:"sp" help:"Sequence parallelism: split activations between layers over the tensor axis too."`
	Overlap     string `help:"Overlap computation and communication: on, off, or auto for the collectives for which the cost model says that it pays." enum:"on,off,auto" default:"auto"`
	Bucket      int    `help:"Bytes up to which collectives of one kind and group are merged into one, 1 for none; 0 is as many as the cost model says."`
	Host        int    `help:"Neighbouring devices that share a host: collectives go within hosts, then between them. 0 is all."`
	Recompute   string `help:"Activations that backward passes recompute: none, selective, full, or full:N for N layers of each stage." default:"none"`
	AMP         string `name:"amp" help:"Compute in bf16 or f16, with f32 weights in the optimizer." enum:"off,bf16,f16" default:"off"`
	FusedPasses string `help:"Rewrites of programs to run, in order: fold,merge,prune,gemm_epilogue,loops; with a - before each, all but those: -loops; or none. Empty is the list of galley passes." placeholder:"NAMES"`
	Offload     string `help:"What is offloaded to the host's memory: none, or parts of the run: optimizer, activations=0.5,parameters, experts; with :DIR after them, to files." default:"none"`
}

// strategy returns the strategy of the flags, or nil if they choose one device without options.
func (f strategyFlags) strategy() (*galley.Strategy, error) {
	s, err := strategy.ParseMesh(f.Mesh)
	if err != nil {
		return nil, fmt.Errorf("--mesh: %w", err)
	}
	s.Shard, s.Branches = f.ZeroGroup, f.Branches
	s.Zero, s.VPP, s.Micro, s.Sequence = f.Zero, f.VPP, f.Micro, f.SP
	s.Bucket, s.Host = f.Bucket, f.Host
	if err := s.Overlap.UnmarshalText([]byte(f.Overlap)); err != nil {
		return nil, fmt.Errorf("--overlap: %w", err)
	}
	s.Context, s.Recompute, s.AMP = f.CP, strategy.Recompute(f.Recompute), f.AMP
	if s.Offload, err = strategy.ParseOffload(f.Offload); err != nil {
		return nil, fmt.Errorf("--offload: %w", err)
	}
	if s.FusedPasses, err = strategy.ParsePasses(f.FusedPasses); err != nil {
		return nil, fmt.Errorf("--fused-passes: %w", err)
	}
	if s.Schedule, err = f.schedule(); err != nil {
		return nil, err
	}
	plain := galley.Strategy{Schedule: s.Schedule, Context: "ring", Recompute: "none", AMP: "off"}
	if s.String() == plain.String() && f.Micro == 0 {
		return nil, s.Check()
	}
	return &s, s.Check()
}

// schedule returns the name of a known schedule, or the text of the file with that name.
func (f strategyFlags) schedule() (string, error) {
	if class, err := pipeline.Lookup(f.Schedule); err == nil {
		return class.Name, nil
	}
	text, err := strict.ReadFile(f.Schedule, strict.Config)
	if err != nil {
		return "", fmt.Errorf("--schedule=%s: neither a file nor one of %s", f.Schedule,
			strings.Join(pipeline.Names(), ", "))
	}
	p, err := pipeline.Parse(string(text))
	if err == nil {
		_, err = pipeline.Check(p)
	}
	if err != nil {
		return "", fmt.Errorf("--schedule=%s: %w", f.Schedule, err)
	}
	return string(text), nil
}
