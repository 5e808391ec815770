// no sources yet
