// Package commtest is the conformance suite that every implementation of comm.Comm must pass.
//
// Each check is a body that all ranks run. Every rank generates the inputs of all ranks from a shared seed,
// computes the expected result with plain loops, and compares bit for bit.
//
//	func TestConformance(t *testing.T) {
//		commtest.Run(t, func(n int, body func(comm.Comm) error) error {
//			w, err := inproc.New(n)
//			if err != nil {
//				return err
//			}
//			return w.Run(t.Context(), func(_ context.Context, c comm.Comm) error { return body(c) })
//		})
//	}
package commtest
