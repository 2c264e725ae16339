package cpu

// Device returns the device that runs the session's ops.
func (s *Session) Device() *Device { return s.device }
