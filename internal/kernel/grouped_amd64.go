//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// groupedAsmSets returns the sets in assembly that this processor can run.
func groupedAsmSets() []groupedSet {
	var sets []groupedSet
	if hasAVX512() && cpu.X86.HasAVX512VNNI {
		sets = append(sets, groupedVNNI)
	}
	if hasAVX2() {
		sets = append(sets, groupedAVX2)
	}
	return sets
}

var groupedVNNI = groupedSet{
	name: "AVX-512 VNNI",
	product: [2][2][]groupedFunc{
		{
			{
				grouped8x1VNNI, grouped8x2VNNI, grouped8x3VNNI, grouped8x4VNNI,
				grouped8x5VNNI, grouped8x6VNNI, grouped8x7VNNI, grouped8x8VNNI,
			},
			{
				grouped8Zerosx1VNNI, grouped8Zerosx2VNNI, grouped8Zerosx3VNNI, grouped8Zerosx4VNNI,
				grouped8Zerosx5VNNI, grouped8Zerosx6VNNI, grouped8Zerosx7VNNI, grouped8Zerosx8VNNI,
			},
		},
		{
			{
				grouped4x1VNNI, grouped4x2VNNI, grouped4x3VNNI, grouped4x4VNNI,
				grouped4x5VNNI, grouped4x6VNNI, grouped4x7VNNI, grouped4x8VNNI,
			},
			{
				grouped4Zerosx1VNNI, grouped4Zerosx2VNNI, grouped4Zerosx3VNNI, grouped4Zerosx4VNNI,
				grouped4Zerosx5VNNI, grouped4Zerosx6VNNI, grouped4Zerosx7VNNI, grouped4Zerosx8VNNI,
			},
		},
	},
	largest: groupedLargestVNNI, round: groupedRoundVNNI,
}

var groupedAVX2 = groupedSet{
	name: "AVX2",
	product: [2][2][]groupedFunc{
		{
			{
				grouped8x1AVX2, grouped8x2AVX2, grouped8x3AVX2, grouped8x4AVX2,
			},
			{
				grouped8Zerosx1AVX2, grouped8Zerosx2AVX2, grouped8Zerosx3AVX2, grouped8Zerosx4AVX2,
			},
		},
		{
			{
				grouped4x1AVX2, grouped4x2AVX2, grouped4x3AVX2, grouped4x4AVX2,
			},
			{
				grouped4Zerosx1AVX2, grouped4Zerosx2AVX2, grouped4Zerosx3AVX2, grouped4Zerosx4AVX2,
			},
		},
	},
	largest: groupedLargestAVX2, round: groupedRoundAVX2,
}
