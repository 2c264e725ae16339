package mesh

import (
	"fmt"
	"slices"
)

// Bind checks a rule against the shapes of an op's operands and results and fills in the factors' sizes.
func (r Rule) Bind(in, out [][]int) (*Parsed, error) {
	p, err := r.Parse()
	if err != nil {
		return nil, err
	}
	p.shapes = slices.Concat(in, out)
	if r == Unknown {
		p.In, p.Out = bare(in), bare(out)
		return p, nil
	}
	if len(in) == 0 && len(p.In) == 1 && p.In[0] == nil {
		p.In = nil
	}
	if len(p.In) != len(in) || len(p.Out) != len(out) {
		return nil, fmt.Errorf("rule %q: %d operands and %d results: got %d and %d", r, len(p.In), len(p.Out),
			len(in), len(out))
	}
	for i := range in {
		if err := p.bindTensor(p.In[i], in[i]); err != nil {
			return nil, fmt.Errorf("rule %q: operand %d %v: %w", r, i, in[i], err)
		}
	}
	for i := range out {
		if err := p.bindTensor(p.Out[i], out[i]); err != nil {
			return nil, fmt.Errorf("rule %q: result %d %v: %w", r, i, out[i], err)
		}
	}
	if err := p.bindCompound(in, out); err != nil {
		return nil, fmt.Errorf("rule %q: %w", r, err)
	}
	return p, nil
}

// bare returns dims without factors, for tensors of these shapes.
func bare(shapes [][]int) []Dims {
	list := make([]Dims, len(shapes))
	for i, s := range shapes {
		list[i] = make(Dims, len(s))
	}
	return list
}

func (p *Parsed) bindTensor(dims Dims, shape []int) error {
	if len(dims) != len(shape) {
		return fmt.Errorf("rule has %d dims", len(dims))
	}
	for d, factors := range dims {
		switch len(factors) {
		case 0:
			if shape[d] != 1 {
				return fmt.Errorf("dim %d carries no factor: want size 1", d)
			}
		case 1:
			f := p.factor(factors[0])
			if f.Size != 0 && f.Size != shape[d] {
				return fmt.Errorf("dim %d: factor %c has size %d elsewhere", d, f.Name, f.Size)
			}
			f.Size = shape[d]
		}
	}
	return nil
}

// bindCompound solves each compound dim with one unknown factor and checks the others.
func (p *Parsed) bindCompound(in, out [][]int) error {
	for pass := 0; pass < 2; pass++ {
		for i := range in {
			if err := p.solve(p.In[i], in[i]); err != nil {
				return err
			}
		}
		for i := range out {
			if err := p.solve(p.Out[i], out[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Parsed) solve(dims Dims, shape []int) error {
	for d, factors := range dims {
		if len(factors) < 2 {
			continue
		}
		known := 1
		var unknown *Factor
		for _, name := range factors {
			if f := p.factor(name); f.Size != 0 || shape[d] == 0 {
				known *= f.Size
			} else {
				unknown = f
			}
		}
		switch {
		case unknown != nil && shape[d]%known == 0:
			unknown.Size = shape[d] / known
		case unknown != nil || known != shape[d]:
			return fmt.Errorf("compound dim %d of %v: factors %q make %d", d, shape, factors, known)
		}
	}
	return nil
}
