package plan

// UsualHost returns what cores of a usual machine do, for plans on one that nobody has measured. They are
// what galley calibrate says of a server's cores with AVX-512, rounded.
func UsualHost(cores int) *Host {
	return &Host{Cores: max(1, cores), Crowd: 1.1, Start: 0.3e-6, Rate: 100e9, Stream: 12e9, Meet: 1e-6,
		Message: 3e-6, Wake: 8e-6, Idle: 18e-6, Spread: 0.1, Touch: 40e9}
}
