package decode

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// bucket is what a program is compiled for.
type bucket struct {
	// rows is the number of sequences, pages the most pages of each.
	rows, pages int
	// seq is the number of tokens read of each sequence, wanted the number of logits returned; steps is then 0.
	seq, wanted int
	// steps is the number of decoding steps, whose tokens the program chooses by sampling.
	steps    int
	sampling sampling
}

func (b bucket) String() string {
	if b.steps > 0 {
		return fmt.Sprintf("decode_r%d_p%d_s%d_k%d", b.rows, b.pages, b.steps, b.sampling.likeliest)
	}
	return fmt.Sprintf("read_r%d_p%d_t%d_w%d", b.rows, b.pages, b.seq, b.wanted)
}

// inputs returns the types of a program's inputs besides weights and pools.
func (b bucket) inputs() []op.Type {
	ints := func(shape ...int) op.Type { return op.Type{DType: array.I32, Shape: shape} }
	if b.steps == 0 {
		return []op.Type{ints(b.rows, b.pages), ints(b.rows, b.seq), ints(b.rows, b.seq), ints(b.rows * b.seq),
			ints(b.wanted)}
	}
	of := []op.Type{ints(b.rows, b.pages), ints(b.rows), ints(b.steps, b.rows), ints(b.steps, b.rows),
		{DType: array.F32, Shape: array.Shape{b.steps, b.rows}}}
	return append(of, knobTypes(b.rows)...)
}

// compile compiles the program of a bucket, for pools of the given number of pages. It returns the pools,
// whose memory is donated, and the bucket's results.
func (d *Model) compile(b bucket, pages int) (backend.Executable, error) {
	build := ir.NewBuilder(b.String())
	params := d.m.Params()
	weights := make([]*op.Tensor, len(params))
	for i, p := range params {
		weights[i] = build.Param(p.Name, p.Type)
	}
	var pools, in []*op.Tensor
	var donate []int
	for i, t := range d.poolTypes(pages) {
		donate = append(donate, len(weights)+i)
		pools = append(pools, build.Param(fmt.Sprintf("pool%d", i), t))
	}
	for i, t := range b.inputs() {
		in = append(in, build.Param(fmt.Sprintf("in%d", i), t))
	}
	defer nn.Bind(params, weights)()
	compute := d.read
	if b.steps > 0 {
		compute = d.steps
	}
	f, err := build.Build(compute(b, pools, in)...)
	if err == nil {
		f, err = pass.Optimize(f)
	}
	if err != nil {
		return nil, err
	}
	return d.b.Compile(f, backend.Options{Donate: donate})
}

// read traces the processing of chunks of tokens.
func (d *Model) read(b bucket, pools, in []*op.Tensor) []*op.Tensor {
	c := models.PagedCache(pools, &nn.Pages{Table: in[0], Positions: in[2], Slots: in[3],
		Tokens: paged.PageTokens})
	hidden, logits := models.Continue(d.m, in[1], in[4], c)
	return append(c.Values(), hidden, logits)
}

// steps traces decoding steps: each samples a token and feeds it to the next.
func (d *Model) steps(b bucket, pools, in []*op.Tensor) []*op.Tensor {
	table, first, rest := in[0], in[1], in[2:5]
	k := knobsOf(in[5:])
	last, out := op.Scan(func(carry, x []*op.Tensor) (next, y []*op.Tensor) {
		positions, slots, uniform := x[0], x[1], x[2]
		c := models.PagedCache(carry[1:], &nn.Pages{Table: table, Positions: op.Reshape(positions, b.rows, 1),
			Slots: slots, Tokens: paged.PageTokens})
		every := op.Iota(carry[0].Scope(), array.I32, array.Shape{b.rows}, 0)
		_, logits := models.Continue(d.m, op.Reshape(carry[0], b.rows, 1), every, c)
		ids, logProbs := b.sampling.choose(logits, uniform, k)
		return append([]*op.Tensor{ids}, c.Values()...), []*op.Tensor{ids, logProbs}
	}, append([]*op.Tensor{first}, pools...), rest)
	return append(last[1:], out...)
}
