package packed

import "github.com/galley-ml/galley/internal/kernel"

// stack is weights one below the other that are packed each in its own way.
type stack []Weight

// Stack returns weights of equally many columns, one below the other, as one.
func Stack(ws ...Weight) Weight {
	if len(ws) == 1 {
		return ws[0]
	}
	return stack(ws)
}

func (s stack) Out() int {
	n := 0
	for _, w := range s {
		n += w.Out()
	}
	return n
}

func (s stack) In() int { return s[0].In() }

func (s stack) Bytes() int {
	n := 0
	for _, w := range s {
		n += w.Bytes()
	}
	return n
}

func (s stack) Row(dst []float32, j int) {
	for _, w := range s {
		if j < w.Out() {
			w.Row(dst, j)
			return
		}
		j -= w.Out()
	}
}

func (s stack) Multiply(p *kernel.Pool, y, x []float32, rows int) {
	at, out := 0, s.Out()
	for _, w := range s {
		if g, ok := w.(*grouped); ok {
			g.into(p, y[at:], out, x, rows)
		} else {
			part := make([]float32, rows*w.Out())
			w.Multiply(p, part, x, rows)
			for i := range rows {
				copy(y[i*out+at:], part[i*w.Out():(i+1)*w.Out()])
			}
		}
		at += w.Out()
	}
}
