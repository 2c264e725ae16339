package op

// Rows is what the rows of a batch are in a tensor.
type Rows struct {
	Kind RowKind
	// Dim has the rows of RowsEach and RowsAt: as many elements for each row, one row after the other.
	Dim int
}

// RowKind is how a tensor depends on the rows of a batch.
type RowKind uint8

// A tensor is the same for all rows, has a part for each, is a sum over them, or has for each the positions
// of others among them.
const (
	RowsSame RowKind = iota
	RowsEach
	RowsSum
	RowsAt
)

// RowIndexer is an op that gives the order of a batch's rows, or takes rows in such an order: with fewer rows
// in the batch it does the same to those, although its rule needs all of them together. RowIndex is what rows
// are in its results.
type RowIndexer interface {
	RowIndex(in []Rows) ([]Rows, bool)
}

func (moeSort) RowIndex(in []Rows) ([]Rows, bool) {
	return []Rows{{Kind: RowsAt}, {Kind: RowsSum}}, in[0] == Rows{Kind: RowsEach}
}

func (o indexSelect) RowIndex(in []Rows) ([]Rows, bool) {
	each := Rows{RowsEach, o.Dim}
	return []Rows{each}, o.Total == 0 && in[0] == each && in[1].Kind == RowsAt
}

func (o indexAdd) RowIndex(in []Rows) ([]Rows, bool) {
	each := Rows{RowsEach, o.Dim}
	return []Rows{each}, o.Total == 0 && (in[0] == each || in[0].Kind == RowsSame) && in[1].Kind == RowsAt &&
		in[2] == each
}

// RowIndex takes the sizes of groups for those of the rows that are there.
func (o groupedMatMul) RowIndex(in []Rows) ([]Rows, bool) {
	each := Rows{Kind: RowsEach}
	return []Rows{each}, !o.Part && in[0] == each && in[1].Kind == RowsSame && in[2].Kind == RowsSum
}
