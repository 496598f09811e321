package httpreq_test

import (
	"fmt"
	"net/netip"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/httpreq"
)

// Public addresses can be reached without options. Others are named by the host.
func ExampleRegister() {
	var reg courier.Registry
	httpreq.Register(&reg, &httpreq.Options{
		Hosts:    []string{"api.acme.example", "*.corp.example"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
	})
	fmt.Println(reg.Keys())
	// Output: [http.request]
}
