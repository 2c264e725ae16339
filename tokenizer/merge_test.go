package tokenizer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveMerge returns the definition: of the pairs with the lowest rank merge the first, until there is none.
func naiveMerge(merges map[pair]merge, ids []int32) []int32 {
	ids = slices.Clone(ids)
	for {
		at, best := -1, merge{}
		for i := range len(ids) - 1 {
			m, ok := merges[pair{ids[i], ids[i+1]}]
			if ok && (at < 0 || m.rank < best.rank) {
				at, best = i, m
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = best.id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

func TestMergeIsNaiveMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		merges := map[pair]merge{}
		symbol := rapid.Int32Range(0, 3)
		for i := range rapid.Int32Range(0, 12).Draw(t, "merges") {
			merges[pair{symbol.Draw(t, "left"), symbol.Draw(t, "right")}] = merge{rank: i, id: 4 + i}
			symbol = rapid.Int32Range(0, 4+i)
		}
		ids := rapid.SliceOf(rapid.Int32Range(0, 3)).Draw(t, "word")
		want := naiveMerge(merges, ids)
		var m merger
		for _, id := range ids {
			m.add(id, 1)
		}
		var got []int32
		end := int32(0)
		for _, tok := range m.merge(merges, nil) {
			got = append(got, tok.id)
			if tok.begin != end {
				t.Fatalf("token at %d: want %d", tok.begin, end)
			}
			end = tok.end
		}
		if !slices.Equal(got, want) || int(end) != len(ids) {
			t.Fatalf("%v: got %v to %d, want %v", ids, got, end, want)
		}
	})
}
