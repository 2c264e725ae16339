//go:build noasm || !amd64

package kernel

func seriesKernels() (seriesTable[float32], seriesTable[float64]) {
	return seriesTable[float32]{}, seriesTable[float64]{}
}
