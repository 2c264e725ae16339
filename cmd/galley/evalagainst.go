package main

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	weights "github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
)

// compare prints how far a model's predictions are from another's, both computed by the serving engine.
func (c *evalCmd) compare(m *modelDir, windows []array.Array, source string) error {
	base, err := openModelDir(c.Against, checkpointChoice{})
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	defer base.close()
	first, err := c.reader(m, c.Weights)
	if err != nil {
		return err
	}
	defer first.close()
	second, err := c.reader(base, "")
	if err != nil {
		return fmt.Errorf("--against: %w", err)
	}
	defer second.close()
	if a, b := first.vocab, second.vocab; a != b {
		return fmt.Errorf("--against=%s: a vocabulary of %d: want %d as in %s", c.Against, b, a, c.Dir)
	}
	var d divergence
	tell := progressPrinter()
	for i, w := range windows {
		tell("evaluating", i, len(windows))
		ids, n := array.Data[int32](w), w.Shape()[1]
		for at := 0; at < len(ids); at += n {
			d.add(first.logits(ids[at:at+n-1]), second.logits(ids[at:at+n-1]), ids[at+1:at+n], first.vocab)
		}
	}
	fmt.Printf("%s on %s (%d tokens): perplexity %.5g, %s: %.5g, ratio %.5f\n", m.name(), source, d.tokens,
		math.Exp(d.own/float64(d.tokens)), base.name(), math.Exp(d.base/float64(d.tokens)),
		math.Exp((d.own-d.base)/float64(d.tokens)))
	fmt.Printf("KL divergence %.6f, equal first choices %.2f%%\n", d.kl/float64(d.tokens),
		100*float64(d.equal)/float64(d.tokens))
	return nil
}

// predictor computes logits of whole windows.
type predictor struct {
	model *paged.Model
	step  *paged.Step
	seq   paged.Sequence
	vocab int
	done  func()
}

func (c *evalCmd) reader(m *modelDir, format string) (*predictor, error) {
	shape, read, done, err := m.weights()
	if err != nil {
		return nil, err
	}
	p, err := paged.New(shape, paged.Config{Weights: weights.Format(format), Read: read, Threads: c.Threads,
		Grouped: m.grouped})
	if err != nil {
		done()
		return nil, err
	}
	pages := (c.Seq + paged.PageTokens - 1) / paged.PageTokens
	step := paged.NewStep(p, paged.NewCache(p, pages), c.Seq)
	r := &predictor{model: p, step: step, vocab: p.Config().Vocab, done: done}
	for i := range pages {
		r.seq.Pages = append(r.seq.Pages, int32(i))
	}
	return r, nil
}

func (p *predictor) logits(ids []int32) []float32 {
	p.seq.Tokens, p.seq.Want = ids, len(ids)
	return p.step.Run([]paged.Sequence{p.seq})
}

func (p *predictor) close() {
	p.model.Close()
	p.done()
}

// divergence sums the differences of two models' predictions of the same tokens.
type divergence struct {
	tokens, equal int
	own, base, kl float64
}

func (d *divergence) add(own, base []float32, next []int32, vocab int) {
	for i, id := range next {
		a, b := own[i*vocab:(i+1)*vocab], base[i*vocab:(i+1)*vocab]
		topA, sumA := logSum(a)
		topB, sumB := logSum(b)
		d.tokens++
		d.own += sumA - float64(a[id])
		d.base += sumB - float64(b[id])
		if topA == topB {
			d.equal++
		}
		for k := range b {
			if p := math.Exp(float64(b[k]) - sumB); p > 0 {
				d.kl += p * (float64(b[k]) - sumB - float64(a[k]) + sumA)
			}
		}
	}
}

// logSum returns the index of the largest element and the log-sum-exp of all.
func logSum(x []float32) (top int, sum float64) {
	for i, v := range x {
		if v > x[top] {
			top = i
		}
	}
	for _, v := range x {
		sum += math.Exp(float64(v - x[top]))
	}
	return top, math.Log(sum) + float64(x[top])
}
