package cpu

// Device returns where the session's ops run.
func (s *Session) Device() *Device { return s.device }
