package kernel

// dotBlock is the most columns of a layer's input, and of its gradient, that are multiplied at a time.
const dotBlock = 4

// MLPGrads holds the results of Backward: gradients of the points, of velocities, of weights and of biases.
type MLPGrads[T Float] struct {
	X     []T
	Along [][]T
	W, B  [][]T
}

// Backward computes the gradients of a sum of the results of Forward, each weighted by dout.
func (m *MLPSeries[T]) Backward(p *Pool, n int, x []T, along [][]T, kept []T, dout [][]T, g MLPGrads[T]) {
	count, points := m.blocks(n)
	parts := make([]mlpSums[T], count)
	p.Run(count, func(b int) {
		t := newMLPTile(m, n, 3)
		defer t.free()
		sums := t.newSums()
		for lo := b * points; lo < min(n, (b+1)*points); lo += TilePoints {
			t.backward(lo, x, along, kept, dout, g, &sums)
		}
		parts[b] = sums.joined(t)
	})
	for l := range m.W {
		clear(g.W[l])
		clear(g.B[l])
		for _, part := range parts {
			Add(g.W[l], g.W[l], part.w[l])
			Add(g.B[l], g.B[l], part.b[l])
		}
	}
}

// mlpSums holds the gradients of weights and biases over some points: each a vector of sums, or their total.
type mlpSums[T Float] struct{ w, b [][]T }

// lanes returns the number of sums of a weight's gradient.
func (t *mlpTile[T]) lanes() int { return max(1, t.t.lanes) }

func ceilTo(n, unit int) int { return ceilDiv(n, unit) * unit }

func (t *mlpTile[T]) newSums() (s mlpSums[T]) {
	for l := range t.W {
		in, out := ceilTo(t.Widths[l], dotBlock), ceilTo(t.Widths[l+1], dotBlock)
		s.w = append(s.w, t.buffer(in*out*t.lanes()))
		s.b = append(s.b, t.buffer(t.Widths[l+1]*TilePoints))
	}
	return s
}

// joined returns the totals over all lanes.
func (s mlpSums[T]) joined(t *mlpTile[T]) (j mlpSums[T]) {
	lanes := t.lanes()
	for l := range t.W {
		in, out := t.Widths[l], t.Widths[l+1]
		w, b, row := make([]T, in*out), make([]T, out), ceilTo(out, dotBlock)*lanes
		for i := range in {
			for k := range out {
				w[i*out+k] = sumLanes(s.w[l][i*row+k*lanes : i*row+(k+1)*lanes])
			}
		}
		for k := range b {
			b[k] = sumLanes(s.b[l][k*TilePoints : (k+1)*TilePoints])
		}
		j.w, j.b = append(j.w, w), append(j.b, b)
	}
	return j
}

// sumLanes adds numbers in four chains.
func sumLanes[T Float](x []T) T {
	if len(x)%4 != 0 {
		var sum T
		for _, v := range x {
			sum += v
		}
		return sum
	}
	var a, b, c, d T
	for i := 0; i+3 < len(x); i += 4 {
		a, b, c, d = a+x[i], b+x[i+1], c+x[i+2], d+x[i+3]
	}
	return (a + b) + (c + d)
}

func (t *mlpTile[T]) backward(lo int, x []T, along [][]T, kept []T, dout [][]T, g MLPGrads[T],
	sums *mlpSums[T]) {
	in, dz, dy := t.tiles[0], t.tiles[1], t.tiles[2]
	last := len(t.W) - 1
	kept = t.keptAt(kept, lo)
	clear(dz[:t.series*t.Widths[last+1]*TilePoints])
	for s := range t.series {
		t.take(t.of(dz, s, t.Widths[last+1]), lo, dout[s], t.Widths[last+1])
	}
	for l := last; l >= 0; l-- {
		from, to := t.Widths[l], t.Widths[l+1]
		var z []T
		if l == 0 {
			t.start(in, lo, x, along)
		} else {
			at := len(kept) - t.series*from*TilePoints
			z, kept = kept[at:], kept[:at]
			copy(t.of(in, 0, from), t.of(z, 0, from))
			t.activate(in, z, from)
		}
		t.addDots(sums.w[l], in, from, dz, to)
		Add(sums.b[l], sums.b[l], t.of(dz, 0, to))
		for s := range t.series {
			t.product(t.of(dy, s, from), from, to, t.W[l], to, 1, t.of(dz, s, to), Overwrite)
		}
		if l > 0 {
			t.deactivate(dy, z, from)
			dz, dy = dy, dz
		}
	}
	t.finish(dy, lo, g)
}

// deactivate turns gradients of tanh and its derivatives into gradients of its argument.
func (t *mlpTile[T]) deactivate(d, z []T, width int) {
	y, dy, s := t.of(z, 0, width), t.of(d, 0, width), 1
	for _, k := range t.Orders {
		z1, d1 := t.of(z, s, width), t.of(d, s, width)
		z2, d2 := z1, d1
		if k == 2 {
			z2, d2 = t.of(z, s+1, width), t.of(d, s+1, width)
		}
		switch {
		case t.t.lanes == 0:
			tanhSeriesGrad(dy, [][]T{d1, d2}[:k], y, [][]T{z1, z2}[:k], [][]T{d1, d2}[:k])
		case k == 1:
			t.t.firstGrad(len(y), &dy[0], &d1[0], &y[0], &z1[0], &d1[0])
		default:
			t.t.secondGrad(len(y), &dy[0], &d1[0], &d2[0], &y[0], &z1[0], &z2[0], &d1[0], &d2[0])
		}
		s += k
	}
	t.slope(dy, y, dy)
}

// finish writes the gradients of points and velocities.
func (t *mlpTile[T]) finish(d []T, lo int, g MLPGrads[T]) {
	width, s := t.Widths[0], 1
	t.put(g.X, lo, t.of(d, 0, width), width)
	for i, k := range t.Orders {
		t.put(g.Along[i], lo, t.of(d, s, width), width)
		s += k
	}
}

// addDots adds the products of all columns of x and of d, over series and points, to vectors of sums, ordered
// by columns of x.
func (t *mlpTile[T]) addDots(acc, x []T, from int, d []T, to int) {
	lanes := t.lanes()
	row := ceilTo(to, dotBlock) * lanes
	if t.t.lanes == 0 {
		t.addDotsPlain(acc, row, x, from, d, to)
		return
	}
	for i := 0; i < from; i += dotBlock {
		for j := 0; j < to; j += t.t.dotCols {
			t.t.dots(t.series, TilePoints, &acc[i*row+j*lanes], row, &x[i*TilePoints], from*TilePoints,
				&d[j*TilePoints], to*TilePoints, TilePoints)
		}
	}
}

func (t *mlpTile[T]) addDotsPlain(acc []T, row int, x []T, from int, d []T, to int) {
	for s := range t.series {
		for i := range from {
			a := t.of(x, s, from)[i*TilePoints : (i+1)*TilePoints]
			for j := range to {
				b := t.of(d, s, to)[j*TilePoints : (j+1)*TilePoints]
				var sum T
				for e, v := range a {
					sum += v * b[e]
				}
				acc[i*row+j] += sum
			}
		}
	}
}
