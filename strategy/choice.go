package strategy

import "fmt"

// Choice is on, off, or left to the cost model.
type Choice string

// The choices.
const (
	Auto Choice = ""
	On   Choice = "on"
	Off  Choice = "off"
)

// UnmarshalText reads on and off; true and false are the same.
func (c *Choice) UnmarshalText(text []byte) error {
	switch string(text) {
	case "", "auto":
		*c = Auto
	case "on", "true":
		*c = On
	case "off", "false":
		*c = Off
	default:
		return fmt.Errorf("got %q: want on, off or auto", text)
	}
	return nil
}
