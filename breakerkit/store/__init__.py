"""Where values are kept between calls: one protocol, in this process's memory or in Redis and Valkey."""
