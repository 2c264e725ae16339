// Package backend defines what an accelerator must implement to run Galley's programs: ten methods on three
// types, and two more, of Group, if several devices run one program.
//
// A Backend compiles a local program once. Its Executable then takes and returns Buffers, which stay on the
// device between runs. The memory of a donated buffer is reused for a result.
//
//	exe, err := b.Compile(program, backend.Options{Donate: []int{0}})
//	x, err := b.Put(a)
//	for range steps {
//		out, err := exe.Run([]backend.Buffer{x})
//		x = out[0]
//	}
//	a, err = x.Read()
//
// Package backendtest is the test suite that every backend passes.
package backend
