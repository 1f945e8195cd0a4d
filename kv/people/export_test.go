package people

// What follows lets the tests outside of the package reach into it.

const (
	MaxDevices     = maxDevices
	MaxDevicesFrom = maxDevicesFrom
	NetworkTime    = networkTime
)

var DeviceRows = deviceRows
