// Package backendtest is what every backend must do, as tests. A backend's own test calls Run with a way to
// open it.
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t) })
//	}
package backendtest
