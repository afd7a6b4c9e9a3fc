// Package contracts holds the OpenAPI 3 documents of the services' HTTP surfaces.
package contracts

import "embed"

// Files are the documents, one a service: <service>.yaml.
//
//go:embed *.yaml
var Files embed.FS
