"""Other libraries beside breakerkit: each module here needs the library it is named after."""
