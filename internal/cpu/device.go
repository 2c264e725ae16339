package cpu

// Device is where the session's ops run.
func (s *Session) Device() *Device { return s.device }
