// Package trace shows what happened when: as events for chrome://tracing and Perfetto, and as a picture.
//
// Its one idea is that measured and simulated runs look the same. Whoever has spans, in seconds from a common
// start, puts them on named tracks; a Writer streams them as Chrome's trace events, and a Grid draws rows of
// boxes over time as SVG, with curves below.
//
//	w := trace.NewWriter(file)
//	gpu := w.Track("rank 0", "compute")
//	w.Span(gpu, trace.Span{Name: "0F0", Category: "forward", Start: 0.5e-3, Duration: 2e-3})
//	w.Counter(gpu, "memory", 0.5e-3, 1<<20)
//	err := w.Close()
package trace
