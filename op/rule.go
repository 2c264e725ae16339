package op

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// letters names factors in the order in which rules use them.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// factors returns one factor for each of n dims, starting with letter number first.
func factors(first, n int) string {
	if first+n > len(letters) {
		return strings.Repeat("?", n)
	}
	return letters[first : first+n]
}

// sameRule returns the rule of an op whose operands and results all have the same rank dims.
func sameRule(rank, operands, results int) mesh.Rule {
	word := factors(0, rank)
	side := func(n int) string { return strings.TrimSuffix(strings.Repeat(word+",", n), ",") }
	return mesh.Rule(side(operands) + "->" + side(results))
}

// broadcastRule returns the rule of operands that are broadcast together.
func broadcastRule(in []Type) mesh.Rule {
	shapes := make([]array.Shape, len(in))
	for i, t := range in {
		shapes[i] = t.Shape
	}
	out, err := broadcastShapes(shapes...)
	if err != nil {
		return mesh.Unknown
	}
	words := make([]string, len(in))
	for i, s := range shapes {
		words[i] = broadcastWord(s, out)
	}
	return mesh.Rule(strings.Join(words, ",") + "->" + broadcastWord(out, out))
}

// broadcastWord names the factors of one operand: a dim that is repeated has none.
func broadcastWord(s, out array.Shape) string {
	word := []byte(factors(0, len(out))[len(out)-len(s):])
	for i, d := range s {
		if d == 1 {
			word[i] = '.'
		}
	}
	return string(word)
}

// wholeDim stars the factor of one dim in a word of single factors, so that it must not be split.
func wholeDim(word string, dim int) string { return word[:dim+1] + "*" + word[dim+1:] }
