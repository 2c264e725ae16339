// Package backend says what a chip must provide to run Galley's programs: ten methods on three types, and two
// more, of Group, where several devices run one program.
//
// A Backend compiles a local program once; its Executable then takes and returns Buffers, which stay on the
// device between runs. What was donated is gone after a run, and its memory holds a result.
//
//	exe, err := b.Compile(program, backend.Options{Donate: []int{0}})
//	x, err := b.Put(a)
//	for range steps {
//		out, err := exe.Run([]backend.Buffer{x})
//		x = out[0]
//	}
//	a, err = x.Read()
//
// Package backendtest is the suite that every backend passes.
package backend
