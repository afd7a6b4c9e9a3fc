#!/bin/sh
exec ./ui-server --env docker start
