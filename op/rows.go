package op

// Rows describes how a tensor depends on the rows of a batch.
type Rows struct {
	Kind RowKind
	// Dim is the dim of RowsEach and RowsAt with the rows: the same number of elements for each row, row after
	// row.
	Dim int
}

// RowKind is the kind of dependence on the rows of a batch.
type RowKind uint8

// A tensor is the same for all rows, has a part for each row, is a sum over rows, or has, for each row, the
// positions of other rows.
const (
	RowsSame RowKind = iota
	RowsEach
	RowsSum
	RowsAt
)

// RowIndexer is implemented by ops that compute an order of a batch's rows, or take rows in such an order. On
// a micro-batch they do the same with its rows, although their rule does not let rows be split. RowIndex
// describes the rows of the results.
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

// RowIndex takes the sizes of groups as those of the rows of the micro-batch.
func (o groupedMatMul) RowIndex(in []Rows) ([]Rows, bool) {
	each := Rows{Kind: RowsEach}
	return []Rows{each}, !o.Part && in[0] == each && in[1].Kind == RowsSame && in[2].Kind == RowsSum
}
