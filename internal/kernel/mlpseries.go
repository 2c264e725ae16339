package kernel

import "unsafe"

// MLPSeries is a multi-layer perceptron, x·w + b with tanh between layers, evaluated at points together with
// its derivatives along lines. A value and its derivatives are called series, the value first; all use the
// same weights. The points go through all layers in tiles that stay in the cache, one point in each lane: a
// tile has, for each series, a row of TilePoints for each column of the layer.
type MLPSeries[T Float] struct {
	// Orders is the number of derivatives along each line, one or two.
	Orders []int
	// Widths are the columns of the points and of each layer's result.
	Widths []int
	// W and B are the weights [in, out] and the biases of each layer.
	W, B [][]T
}

// TilePoints is the number of points in a tile: a row of them is one or two strips of a product.
const TilePoints = 64

// Series returns the number of series.
func (m *MLPSeries[T]) Series() int {
	n := 1
	for _, k := range m.Orders {
		n += k
	}
	return n
}

// Kept returns the number of rows of each tile that Forward keeps for Backward: for each hidden layer the
// tanh of its value, and its other series before tanh.
func (m *MLPSeries[T]) Kept() int {
	rows := 0
	for _, w := range m.Widths[1 : len(m.Widths)-1] {
		rows += w * m.Series()
	}
	return rows
}

// blocks returns how the points are split, independent of the number of threads: sums over points are
// computed within blocks, and then over blocks.
func (m *MLPSeries[T]) blocks(n int) (count, points int) {
	points = min(max(ceilTo(ceilDiv(n, 8), TilePoints), 512), 2048)
	return ceilDiv(n, points), points
}

// Forward computes the series of the network at n points x [n, in], with a velocity along each line: out is
// the value and its derivatives [n, out], line by line, and kept [tiles, Kept, TilePoints] is for Backward,
// with zeros after the last point.
func (m *MLPSeries[T]) Forward(p *Pool, n int, x []T, along, out [][]T, kept []T) {
	count, points := m.blocks(n)
	p.Run(count, func(b int) {
		t := newMLPTile(m, n, 2)
		defer t.free()
		for lo := b * points; lo < min(n, (b+1)*points); lo += TilePoints {
			t.forward(lo, x, along, out, kept)
		}
	})
}

// mlpTile is the memory of a task: a few tiles of the widest layer.
type mlpTile[T Float] struct {
	*MLPSeries[T]
	n, series int
	tiles     [][]T
	buffers   []*gemmBuffer
	strip     gemmStrip
	stripWide int
	t         *seriesTable[T]
}

func newMLPTile[T Float](m *MLPSeries[T], n, tiles int) *mlpTile[T] {
	t := &mlpTile[T]{MLPSeries: m, n: n, series: m.Series(), t: seriesOf[T]()}
	ks := kernelsOf[T](&gemmSets[0])
	t.strip, t.stripWide = ks.strip, ks.stripWide
	width := 0
	for _, w := range m.Widths {
		width = max(width, w)
	}
	for range tiles { // dots reads up to dotBlock-1 rows after the last
		t.tiles = append(t.tiles, t.buffer((t.series*width+dotBlock-1)*TilePoints))
	}
	return t
}

// buffer returns zeroed memory that is released with the tile.
func (t *mlpTile[T]) buffer(n int) []T {
	b := newGemmBuffer(n * int(unsafe.Sizeof(*new(T))))
	t.buffers = append(t.buffers, b)
	s := unsafe.Slice((*T)(b.ptr), n)
	clear(s)
	return s
}

func (t *mlpTile[T]) free() {
	for _, b := range t.buffers {
		b.free()
	}
}

// of returns series s of a tile whose layer has width columns.
func (t *mlpTile[T]) of(tile []T, s, width int) []T {
	size := width * TilePoints
	return tile[s*size : (s+1)*size]
}

func (t *mlpTile[T]) forward(lo int, x []T, along, out [][]T, kept []T) {
	in := t.tiles[0]
	t.start(in, lo, x, along)
	value, kept := t.of(in, 0, t.Widths[0]), t.keptAt(kept, lo)
	for l, w := range t.W {
		from, to, last := t.Widths[l], t.Widths[l+1], l+1 == len(t.W)
		z := t.tiles[1]
		if size := t.series * to * TilePoints; !last {
			z, kept = kept[:size], kept[size:]
		}
		for s := range t.series {
			c := t.of(z, s, to)
			if s > 0 {
				t.product(c, to, from, w, 1, to, t.of(in, s, from), Overwrite)
				continue
			}
			t.fillRows(c, t.B[l])
			t.product(c, to, from, w, 1, to, value, Accumulate)
		}
		if last {
			for s := range t.series {
				t.put(out[s], lo, t.of(z, s, to), to)
			}
			return
		}
		value = t.of(z, 0, to)
		Tanh(value, value)
		t.activate(in, z, to)
		t.clearRest(z, lo)
	}
}

// keptAt returns the kept rows of the tile that begins with point lo.
func (t *mlpTile[T]) keptAt(kept []T, lo int) []T {
	size := t.Kept() * TilePoints
	return kept[lo/TilePoints*size:][:size]
}

// clearRest clears the lanes after the last point.
func (t *mlpTile[T]) clearRest(z []T, lo int) {
	if count := t.n - lo; count < TilePoints {
		for ; len(z) > 0; z = z[TilePoints:] {
			clear(z[count:TilePoints])
		}
	}
}

// start fills the tile with the points; lanes after the last point are zero.
func (t *mlpTile[T]) start(in []T, lo int, x []T, along [][]T) {
	width, s := t.Widths[0], 1
	clear(in[:t.series*width*TilePoints])
	t.take(t.of(in, 0, width), lo, x, width)
	for i, k := range t.Orders {
		t.take(t.of(in, s, width), lo, along[i], width)
		s += k
	}
}

// take transposes points from lo on into a row for each column, and put transposes them back.
func (t *mlpTile[T]) take(dst []T, lo int, src []T, width int) {
	for i := range min(TilePoints, t.n-lo) {
		for j, v := range src[(lo+i)*width : (lo+i+1)*width] {
			dst[j*TilePoints+i] = v
		}
	}
}

func (t *mlpTile[T]) put(dst []T, lo int, src []T, width int) {
	for i := range min(TilePoints, t.n-lo) {
		row := dst[(lo+i)*width : (lo+i+1)*width]
		for j := range row {
			row[j] = src[j*TilePoints+i]
		}
	}
}

// fillRows fills each row with its number.
func (t *mlpTile[T]) fillRows(dst, numbers []T) {
	for j, b := range numbers {
		row := dst[j*TilePoints : (j+1)*TilePoints]
		for i := range row {
			row[i] = b
		}
	}
}

// activate computes the derivatives of tanh in y from its value, which is the first series of both, and the
// derivatives in z.
func (t *mlpTile[T]) activate(y, z []T, width int) {
	value, s := t.of(z, 0, width), 1
	for _, k := range t.Orders {
		y1, z1 := t.of(y, s, width), t.of(z, s, width)
		switch {
		case k == 1:
			t.slope(y1, value, z1)
		case t.t.lanes == 0:
			tanhSeries([][]T{y1, t.of(y, s+1, width)}, value, [][]T{z1, t.of(z, s+1, width)})
		default:
			t.t.second(len(value), &y1[0], &t.of(y, s+1, width)[0], &value[0], &z1[0], &t.of(z, s+1, width)[0])
		}
		s += k
	}
}

// slope sets dst = (1 - y²) x.
func (t *mlpTile[T]) slope(dst, y, x []T) {
	if t.t.lanes == 0 {
		tanhSeries([][]T{dst}, y, [][]T{x})
		return
	}
	t.t.first(len(y), &dst[0], &y[0], &x[0])
}

// product overwrites rows of c, or adds to them, with the product of weights w, whose element (i, p) is at
// i·row + p·col, and the k rows of b.
func (t *mlpTile[T]) product(c []T, rows, k int, w []T, row, col int, b []T, update Update) {
	if t.strip == nil {
		t.productPlain(c, rows, k, w, row, col, b, update)
		return
	}
	for j := 0; j < TilePoints; j += t.stripWide {
		cols := min(t.stripWide, TilePoints-j)
		t.strip(rows, k, unsafe.Pointer(&w[0]), row, col, unsafe.Pointer(&b[j]), TilePoints,
			unsafe.Pointer(&c[j]), TilePoints, cols, scaleBits[T](1), update)
	}
}

func (t *mlpTile[T]) productPlain(c []T, rows, k int, w []T, row, col int, b []T, update Update) {
	for i := range rows {
		dst := c[i*TilePoints : (i+1)*TilePoints]
		if update == Overwrite {
			clear(dst)
		}
		for p := range k {
			f := w[i*row+p*col]
			for e, v := range b[p*TilePoints : (p+1)*TilePoints] {
				dst[e] += f * v
			}
		}
	}
}
