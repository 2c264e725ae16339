package plan

// UsualHost returns typical cores, for plans on a machine that has not been measured: rounded values of
// galley calibrate for a server's cores with AVX-512.
func UsualHost(cores int) *Host {
	return &Host{Cores: max(1, cores), Crowd: 1.1, Start: 0.3e-6, Rate: 100e9, Stream: 12e9, Meet: 1e-6,
		Message: 3e-6, Wake: 8e-6, Idle: 18e-6, Spread: 0.1, Touch: 40e9}
}
