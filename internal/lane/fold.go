package lane

// Fold is how the elements of a row become one number.
type Fold uint8

// The folds: in the order of kernel.Sum, and the largest and the smallest element, NaN if any is.
const (
	FoldSum Fold = iota
	FoldMax
	FoldMin
)
